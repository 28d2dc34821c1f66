#!/usr/bin/env bash
# Installs the Debian packages that nodes with real kubelets need (drover-sandbox node add, make test-node): containerd, runc, the CNI plugins,
# busybox as a static program, and tools of the network. What is there already is left alone. Nothing is started.
set -euo pipefail

# What is needed, and the package that has it. It is looked for and not the package: containerd and runc may be Docker's, which Debian's would
# replace.
declare -A provider=(
	[containerd]=containerd [ctr]=containerd [runc]=runc [ip]=iproute2 [nsenter]=util-linux [/bin/busybox]=busybox-static
	[/usr/lib/cni/bridge]=containernetworking-plugins [/usr/lib/cni/loopback]=containernetworking-plugins
)
missing=()
for need in "${!provider[@]}"; do
	if [[ "$need" == /* ]]; then
		[[ -x "$need" ]] || missing+=("${provider[$need]}")
	else
		command -v "$need" >/dev/null || missing+=("${provider[$need]}")
	fi
done
if ((${#missing[@]} == 0)); then
	echo "install-node-packages: everything is there"
	exit 0
fi
if ! command -v apt-get >/dev/null; then
	echo "install-node-packages: install ${missing[*]} in the way of this system; the script knows Debian alone" >&2
	exit 1
fi
if ((EUID != 0)); then
	echo "install-node-packages: run it as root; it installs ${missing[*]}" >&2
	exit 1
fi
echo "install-node-packages: installing ${missing[*]}" >&2
# A service that is installed here must not be started: each node runs a containerd of its own.
policy=/usr/sbin/policy-rc.d
if [[ ! -e "$policy" ]]; then
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod +x "$policy"
	trap 'rm -f "$policy"' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends --no-remove "${missing[@]}"
