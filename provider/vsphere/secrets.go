package vsphere

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/drover-io/drover/provider/vsphere/internal/cloudconfig"
	"github.com/drover-io/drover/provider/vsphere/internal/guestinfo"
	"github.com/drover-io/drover/provider/vsphere/internal/vcenter"
)

// keepRead is how long what was read from the API server counts. Credentials that have changed are used after that time.
const keepRead = 30 * time.Second

// Keys of the Secret with user data.
const (
	keyUserData = "userData"
	keyFormat   = "format"
)

// cloudConfig is the configuration of the cloud provider.
type cloudConfig struct{ *cloudconfig.Config }

func (c *cloudConfig) hasLabels() bool { return c.Region != "" || c.Zone != "" }

// endpoint returns where a vCenter is.
func (c *cloudConfig) endpoint(server string) vcenter.Endpoint {
	of := c.For(server)
	return vcenter.Endpoint{Server: server, Port: of.Port, Insecure: of.Insecure, CAFile: of.CAFile, Thumbprint: of.Thumbprint}
}

// cloudConfig reads the ConfigMap of the cloud provider. Without one there are no settings.
func (a *Actuator) cloudConfig(ctx context.Context) (*cloudConfig, error) {
	key := a.options.CloudConfig
	return read(&a.reads, a.clock, "configmap/"+key.String(), func() (*cloudConfig, error) {
		object, err := a.core.ConfigMaps(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return &cloudConfig{&cloudconfig.Config{}}, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading ConfigMap %s: %w", key, err)
		}
		config, err := cloudconfig.Parse(object.Data[a.options.CloudConfigKey])
		if err != nil {
			return nil, fmt.Errorf("ConfigMap %s, key %s: %w", key, a.options.CloudConfigKey, err)
		}
		return &cloudConfig{config}, nil
	})
}

// credentials reads the credentials for a vCenter from a Secret.
func (a *Actuator) credentials(ctx context.Context, namespace, name, server string) (vcenter.Credentials, error) {
	secret, err := a.secret(ctx, namespace, name)
	if err != nil {
		return vcenter.Credentials{}, fmt.Errorf("credentials secret %w", err)
	}
	credentials := vcenter.Credentials{
		Username: string(secret.Data[server+".username"]), Password: string(secret.Data[server+".password"]), Secret: namespace + "/" + name,
	}
	for key, value := range map[string]string{server + ".username": credentials.Username, server + ".password": credentials.Password} {
		if value == "" {
			return vcenter.Credentials{}, fmt.Errorf("credentials secret %s/%s: key %s is missing or empty", namespace, name, key)
		}
	}
	return credentials, nil
}

func (a *Actuator) secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	return read(&a.reads, a.clock, "secret/"+key.String(), func() (*corev1.Secret, error) {
		secret, err := a.core.Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil, fmt.Errorf("%s not found: %w", key, err)
		case err != nil:
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		return secret, nil
	})
}

// guestinfo returns what the virtual machine of a Machine finds out about itself.
func (a *Actuator) guestinfo(
	ctx context.Context, machine *machinev1beta1.Machine, spec *machinev1beta1.VSphereMachineProviderSpec, interfaces []guestinfo.Interface,
) (map[string]string, error) {
	secret, err := a.secret(ctx, machine.Namespace, spec.UserDataSecret.Name)
	if err != nil {
		return nil, fmt.Errorf("user data secret %w", err)
	}
	data, found := secret.Data[keyUserData]
	if !found {
		return nil, fmt.Errorf("user data secret %s/%s: key %s is missing", machine.Namespace, spec.UserDataSecret.Name, keyUserData)
	}
	return guestinfo.Extra(&guestinfo.Input{
		Hostname: machine.Name, InstanceID: string(machine.UID), UserData: data, Interfaces: interfaces,
		Format: guestinfo.Format(cmp.Or(string(secret.Data[keyFormat]), "")),
	})
}

// reads are what was read from the API server a moment ago: hundreds of Machines have the same Secrets.
type reads struct {
	mu    sync.Mutex
	known map[string]recent
}

type recent struct {
	value any
	until time.Time
}

// read returns what was read a moment ago, or reads it.
func read[T any](r *reads, clock clock.PassiveClock, key string, get func() (T, error)) (T, error) {
	r.mu.Lock()
	known, found := r.known[key]
	r.mu.Unlock()
	if value, ok := known.value.(T); ok && found && clock.Now().Before(known.until) {
		return value, nil
	}
	value, err := get()
	if err != nil {
		return value, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		r.known = map[string]recent{}
	}
	r.known[key] = recent{value, clock.Now().Add(keepRead)}
	return value, nil
}
