{{- /* Whether a capability is on: "true" or nothing. Called with (list $ "name"). */ -}}
{{- define "drover.on" -}}
{{- $root := index . 0 -}}
{{- $name := index . 1 -}}
{{- $value := index $root.Values.capabilities $name -}}
{{- if ne (toString $value) "auto" -}}
{{- if $value -}}true{{- end -}}
{{- else if eq $name "metadata" -}}
{{- if or ($root.Capabilities.APIVersions.Has "machine.openshift.io/v1beta1") (include "drover.on" (list $root "machines")) -}}true{{- end -}}
{{- else if eq $name "machines" -}}
{{- if not (include "drover.openshift" $root) -}}true{{- end -}}
{{- else if eq $name "autoscaling" -}}
{{- if and (include "drover.on" (list $root "machines")) (not (include "drover.openshift" $root)) -}}true{{- end -}}
{{- else if eq $name "upgrade" -}}
{{- if $root.Capabilities.APIVersions.Has "machineconfiguration.openshift.io/v1" -}}true{{- end -}}
{{- else -}}true{{- end -}}
{{- end -}}

{{- /* Whether this is OpenShift. */ -}}
{{- define "drover.openshift" -}}
{{- if .Capabilities.APIVersions.Has "config.openshift.io/v1" -}}true{{- end -}}
{{- end -}}

{{- /* Whether something is on that reads or acquires leases of nodes. */ -}}
{{- define "drover.leases" -}}
{{- if or (include "drover.on" (list . "maintenance")) (include "drover.on" (list . "machines")) (include "drover.on" (list . "upgrade")) (include "drover.on" (list . "nodeGroups")) -}}true{{- end -}}
{{- end -}}

{{- /* Whether the webhook is on. */ -}}
{{- define "drover.webhook" -}}
{{- if and .Values.webhook.enabled (include "drover.on" (list . "maintenance")) -}}true{{- end -}}
{{- end -}}

{{- /* Whether Drover makes the webhook's certificate. */ -}}
{{- define "drover.managed" -}}
{{- if and (include "drover.webhook" .) (eq .Values.webhook.certificates "managed") -}}true{{- end -}}
{{- end -}}

{{- /* A setting of the configuration, or its default. Called with (list $ "section" "name" "default"). */ -}}
{{- define "drover.setting" -}}
{{- $section := index (index . 0).Values.config (index . 1) | default dict -}}
{{- if hasKey $section (index . 2) -}}{{- index $section (index . 2) -}}{{- else -}}{{- index . 3 -}}{{- end -}}
{{- end -}}

{{- /* The port of an address of the configuration; nothing for "0". Called with (list $ "section" "default"). */ -}}
{{- define "drover.port" -}}
{{- $address := include "drover.setting" (list (index . 0) (index . 1) "bindAddress" (index . 2)) -}}
{{- if ne $address "0" -}}{{- splitList ":" $address | last -}}{{- end -}}
{{- end -}}

{{- /* The namespace of MachineSets and Machines; nothing for all. */ -}}
{{- define "drover.machines.namespace" -}}
{{- if hasKey .Values.config "namespace" -}}{{- .Values.config.namespace -}}{{- else -}}openshift-machine-api{{- end -}}
{{- end -}}

{{- /* Whether a namespace can be this release's: it is not there, or this release made it. Called with (list $ "name"). */ -}}
{{- define "drover.namespace.free" -}}
{{- $root := index . 0 -}}
{{- $live := lookup "v1" "Namespace" "" (index . 1) -}}
{{- if not $live -}}true
{{- else -}}
{{- $annotations := $live.metadata.annotations | default dict -}}
{{- $name := index $annotations "meta.helm.sh/release-name" -}}
{{- $namespace := index $annotations "meta.helm.sh/release-namespace" -}}
{{- if and (eq (toString $name) $root.Release.Name) (eq (toString $namespace) $root.Release.Namespace) -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Whether the chart makes the namespace of machines. */ -}}
{{- define "drover.machines.namespace.made" -}}
{{- $name := include "drover.machines.namespace" . -}}
{{- $create := .Values.namespaces.machines.create -}}
{{- if eq (toString $create) "auto" -}}
{{- $create = and (include "drover.on" (list . "machines")) (not (include "drover.openshift" .)) -}}
{{- end -}}
{{- if and $name $create (include "drover.namespace.free" (list . $name)) -}}true{{- end -}}
{{- end -}}

{{- /* The rules for the kinds of remediation templates, each Kind.group, and of their requests. Called with (list $ (list "kind" ...)) of the default. */ -}}
{{- define "drover.remediation.rules" -}}
{{- $remediation := (index . 0).Values.config.machines | default dict | dig "remediation" dict -}}
{{- $kinds := index . 1 -}}
{{- if hasKey $remediation "templateKinds" -}}{{- $kinds = $remediation.templateKinds | default list -}}{{- end -}}
{{- range $kinds -}}
{{- $kind := splitn "." 2 . -}}
{{- if regexMatch "(^|[.])(k8s[.]io|kubernetes[.]io|openshift[.]io|drover[.]dev)$" $kind._1 -}}
{{- fail (printf "config.machines.remediation.templateKinds: kinds of the group %s are no remediation requests" $kind._1) -}}
{{- end }}
- apiGroups: [{{ $kind._1 | quote }}]
  resources: [{{ printf "%ss" (lower $kind._0) | quote }}]
  verbs: [get]
- apiGroups: [{{ $kind._1 | quote }}]
  resources: [{{ printf "%ss" (lower (trimSuffix "Template" $kind._0)) | quote }}]
  verbs: [list, create, delete]
{{- end -}}
{{- end -}}

{{- /* Where the provider vsphere reads the configuration of the cloud provider, as namespace/name; nothing where the values do not say so and this is not OpenShift. */ -}}
{{- define "drover.vsphere.cloudConfig" -}}
{{- $options := .Values.config.machines | default dict | dig "providerOptions" "vsphere" dict -}}
{{- if hasKey $options "cloudConfig" -}}{{- $options.cloudConfig -}}
{{- else if include "drover.openshift" . -}}openshift-config-managed/kube-cloud-config{{- end -}}
{{- end -}}

{{- /* The image. A chart of a release has the digest of its image, which counts until the values name another tag or digest. */ -}}
{{- define "drover.image" -}}
{{- $digest := .Values.image.digest -}}
{{- if not (or $digest .Values.image.tag) -}}{{- $digest = index (.Chart.Annotations | default dict) "drover.dev/image-digest" -}}{{- end -}}
{{- with .Values.image -}}
{{- if $digest -}}{{ .repository }}@{{ $digest }}{{- else -}}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The names of the capabilities as --controllers knows them. */ -}}
{{- define "drover.controllers" -}}
{{- $names := list -}}
{{- if include "drover.on" (list . "metadata") -}}{{- $names = append $names "metadata" -}}{{- end -}}
{{- if include "drover.on" (list . "nodeGroups") -}}{{- $names = append $names "node-groups" -}}{{- end -}}
{{- if include "drover.on" (list . "maintenance") -}}{{- $names = concat $names (list "maintenance" "maintenance-kubevirt") -}}{{- end -}}
{{- if include "drover.on" (list . "machines") -}}{{- $names = append $names "machines" -}}{{- end -}}
{{- if include "drover.on" (list . "autoscaling") -}}{{- $names = append $names "autoscaling" -}}{{- end -}}
{{- if include "drover.on" (list . "upgrade") -}}{{- $names = append $names "upgrade" -}}{{- end -}}
{{- toYaml $names -}}
{{- end -}}

{{- /* The configuration file. The values below webhook override the configuration of the webhook. */ -}}
{{- define "drover.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- if not (hasKey $config "controllers") -}}
{{- $_ := set $config "controllers" (include "drover.controllers" . | fromYamlArray) -}}
{{- end -}}
{{- $webhook := deepCopy ($config.webhook | default dict) -}}
{{- if include "drover.on" (list . "maintenance") -}}
{{- if not .Values.webhook.enabled -}}
{{- $_ := set $webhook "bindAddress" "0" -}}
{{- else if ne .Values.webhook.certificates "managed" -}}
{{- $_ := set $webhook "certificates" "Files" -}}
{{- $_ := set $webhook "certDir" "/etc/drover-webhook" -}}
{{- end -}}
{{- end -}}
{{- with $webhook -}}{{- $_ := set $config "webhook" . -}}{{- end -}}
{{- if include "drover.metrics.secret" . -}}
{{- $_ := set $config "metrics" (merge (dict "certDir" "/etc/drover-metrics") ($config.metrics | default dict)) -}}
{{- end -}}
{{- $machines := deepCopy ($config.machines | default dict) -}}
{{- range $name := list "kubemark" "kwok" "vsphere" -}}
{{- if (index $.Values $name).enabled -}}
{{- $_ := set $machines "providers" (append ($machines.providers | default (list "*")) $name | uniq) -}}
{{- end -}}
{{- end -}}
{{- if .Values.kubemark.enabled -}}
{{- $options := deepCopy ($machines.providerOptions | default dict) -}}
{{- $kubemark := dict "image" (required "kubemark.image: name the image that has kubemark" .Values.kubemark.image) -}}
{{- with .Values.kubemark.command -}}{{- $_ := set $kubemark "command" . -}}{{- end -}}
{{- $_ := set $options "kubemark" $kubemark -}}
{{- $_ := set $machines "providerOptions" $options -}}
{{- end -}}
{{- with $machines -}}{{- $_ := set $config "machines" . -}}{{- end -}}
apiVersion: config.drover.dev/v1alpha1
kind: DroverConfiguration
{{ toYaml $config }}
{{- end -}}

{{- /* The Secret with the webhook's certificate that the Pods mount; nothing for a managed one. */ -}}
{{- define "drover.webhook.secret" -}}
{{- if and (include "drover.webhook" .) (ne .Values.webhook.certificates "managed") -}}
{{- if eq .Values.webhook.certificates "cert-manager" -}}
{{- include "drover.setting" (list . "webhook" "secretName" "drover-webhook") -}}
{{- else -}}
{{- required "webhook.secretName: name the Secret with the certificate, or take another of webhook.certificates" .Values.webhook.secretName -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The Secret with the certificate of metrics that the Pods mount; nothing for one that each Pod makes at its start. */ -}}
{{- define "drover.metrics.secret" -}}
{{- $source := .Values.metrics.certificates -}}
{{- if eq $source "secret" -}}
{{- required "metrics.secretName: name the Secret with the certificate, or take another of metrics.certificates" .Values.metrics.secretName -}}
{{- else if ne $source "self-signed" -}}
{{- .Values.metrics.secretName | default "drover-metrics-tls" -}}
{{- end -}}
{{- end -}}

{{- /* How Prometheus verifies that it is Drover which answers. */ -}}
{{- define "drover.metrics.tls" -}}
{{- if eq .Values.metrics.certificates "self-signed" -}}
# No client can verify a certificate that is made at each start. What Prometheus presents is a token that may get /metrics, and nothing else.
insecureSkipVerify: true
{{- else -}}
serverName: {{ printf "drover-metrics.%s.svc" .Release.Namespace | quote }}
ca:
  {{- if eq .Values.metrics.certificates "openshift" }}
  configMap:
    name: drover-metrics-authority
    key: service-ca.crt
  {{- else }}
  secret:
    name: {{ include "drover.metrics.secret" . | quote }}
    key: ca.crt
  {{- end }}
{{- end -}}
{{- end -}}

{{- /* How the API server knows the webhook, unless Drover injects it. */ -}}
{{- define "drover.webhook.annotations" -}}
{{- if eq .Values.webhook.certificates "cert-manager" }}
  annotations:
    cert-manager.io/inject-ca-from: {{ printf "%s/drover-webhook" .Release.Namespace | quote }}
{{- end }}
{{- end -}}
{{- define "drover.webhook.authority" -}}
{{- if eq .Values.webhook.certificates "secret" }}
    caBundle: {{ required "webhook.caBundle: the authority of the certificate, in PEM" .Values.webhook.caBundle | b64enc | quote }}
{{- end }}
{{- end -}}

{{- /* What runs has to be on: it would have no permissions. */ -}}
{{- define "drover.check.controllers" -}}
{{- $on := include "drover.controllers" . | fromYamlArray -}}
{{- with .Values.config.controllers -}}
{{- range $name := list "metadata" "node-groups" "maintenance" "maintenance-kubevirt" "machines" "autoscaling" "upgrade" -}}
{{- $wanted := or (has $name $.Values.config.controllers) (and (has "*" $.Values.config.controllers) (not (has (print "-" $name) $.Values.config.controllers))) -}}
{{- if and $wanted (not (has $name $on)) -}}
{{- fail (printf "config.controllers turns %s on, and it would have no permissions: turn it on in capabilities, or say -%s" $name $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* What cannot work, said before anything is made. */ -}}
{{- define "drover.check" -}}
{{- if not (include "drover.controllers" . | fromYamlArray) -}}
{{- fail "capabilities: turn at least one on" -}}
{{- end -}}
{{- $name := include "drover.machines.namespace" . -}}
{{- $used := or (include "drover.on" (list . "metadata")) (include "drover.on" (list . "machines")) (include "drover.on" (list . "autoscaling")) -}}
{{- $asked := lookup "v1" "Namespace" "" "default" -}}
{{- if and $asked $name $used (not (include "drover.machines.namespace.made" .)) (not (lookup "v1" "Namespace" "" $name)) -}}
{{- fail (printf "there is no namespace %s for MachineSets and Machines. On a cluster without them, such as EKS, GKE or AKS, set capabilities.metadata=false and capabilities.autoscaling=false, which leaves NodeGroups and maintenance on, or capabilities.machines=true if Drover is to create Machines. If the namespace has another name, set config.namespace; to create it, set namespaces.machines.create=true" $name) -}}
{{- end -}}
{{- include "drover.check.controllers" . -}}
{{- with .Values.config.controllers -}}
{{- if and (include "drover.webhook" $) (not (or (has "*" .) (has "maintenance" .) (has "maintenance-kubevirt" .))) -}}
{{- fail "config.controllers names no maintenance and capabilities.maintenance is on: its webhook would not be served and every NodeMaintenance would be denied; turn it off" -}}
{{- end -}}
{{- end -}}
{{- if and (include "drover.webhook" .) (not (include "drover.port" (list . "webhook" ":9443"))) -}}
{{- fail "config.webhook.bindAddress: 0 turns the webhook off, and webhook.enabled is true: say webhook.enabled=false instead" -}}
{{- end -}}
{{- $monitor := .Values.metrics.serviceMonitor -}}
{{- if ne .Values.metrics.certificates "self-signed" -}}
{{- if (.Values.config.metrics | default dict).certDir -}}
{{- fail (printf "config.metrics.certDir and metrics.certificates=%s both say where the certificate is: leave one of them out" .Values.metrics.certificates) -}}
{{- end -}}
{{- else if and $monitor.enabled (eq $monitor.token "file") -}}
{{- fail "metrics.serviceMonitor.token: with \"file\" Prometheus shows the token of its own service account, and cannot verify to whom; say secret, or take another of metrics.certificates" -}}
{{- end -}}
{{- if and .Values.metrics.prometheusRule.enabled (not (include "drover.port" (list . "metrics" ":8443"))) -}}
{{- fail "metrics.prometheusRule.enabled: config.metrics.bindAddress 0 turns metrics off, and the alerts would say that Drover is absent" -}}
{{- end -}}
{{- range $name := list "kubemark" "kwok" "vsphere" -}}
{{- if and (index $.Values $name).enabled (not (include "drover.on" (list $ "machines"))) -}}
{{- fail (printf "%s.enabled: the provider is of use with capabilities.machines only" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
