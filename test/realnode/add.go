package realnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/eventually"
)

// Command is the command of drover-sandbox-node that runs a node; its argument is the node's folder.
const Command = "real-node"

// Limits of what is waited for.
const (
	pollInterval = 50 * time.Millisecond
	readyLimit   = 3 * time.Minute
)

// Options say what nodes to add.
type Options struct {
	// Names are the names of the Nodes.
	Names []string
	// Labels are the labels that the Nodes register with.
	Labels map[string]string
	// Images are archives of images that Pods may use.
	Images []string
	// MaxPods is how many Pods fit on each; zero is 30.
	MaxPods int
}

// Add adds nodes to a control plane and returns when they are Ready. They end with the control plane.
func Add(ctx context.Context, c *cluster.Cluster, options Options) error {
	if missing := Missing(); len(missing) > 0 {
		return fmt.Errorf("realnode: real nodes cannot run here: %v", missing)
	}
	clients, err := kubernetes.NewForConfig(c.Admin())
	if err != nil {
		return fmt.Errorf("realnode: making a client: %w", err)
	}
	if err := letLogs(ctx, clients); err != nil {
		return err
	}
	images, err := basicImages(ctx, c.Dir())
	if err != nil {
		return err
	}
	options.Images = append(images, options.Images...)
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	for _, name := range options.Names {
		if err := add(ctx, c, name, &options); err != nil {
			return err
		}
	}
	for _, name := range options.Names {
		if err := awaitReady(ctx, c, clients, name); err != nil {
			return err
		}
	}
	return nil
}

// letLogs lets the API server ask kubelets for logs and exec, as kubeadm and OpenShift do.
func letLogs(ctx context.Context, clients kubernetes.Interface) error {
	const name = "drover-sandbox:kube-apiserver-kubelet-client"
	binding := rbacv1ac.ClusterRoleBinding(name).
		WithRoleRef(rbacv1ac.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("ClusterRole").WithName("system:kubelet-api-admin")).
		WithSubjects(rbacv1ac.Subject().WithAPIGroup(rbacv1.GroupName).WithKind("User").WithName("kube-apiserver-kubelet-client"))
	apply := metav1.ApplyOptions{FieldManager: "drover-sandbox", Force: true}
	if _, err := clients.RbacV1().ClusterRoleBindings().Apply(ctx, binding, apply); err != nil {
		return fmt.Errorf("realnode: letting the API server ask kubelets: %w", err)
	}
	return nil
}

// FolderOf is where a node has its files.
func FolderOf(c *cluster.Cluster, name string) Folder {
	return Folder(Folder(c.Dir()).Path("nodes", name))
}

func processOf(name string) string { return "node-" + name }

// add starts the process of a node and gives it its certificate.
func add(ctx context.Context, c *cluster.Cluster, name string, options *Options) error {
	folder := FolderOf(c, name)
	if c.ExtraRuns(processOf(name)) {
		return fmt.Errorf("realnode: node %s runs already", name)
	}
	if err := prepare(c, folder, name, options); err != nil {
		return err
	}
	before, err := folder.Network()
	again := err == nil
	binary, err := cluster.NodeBinary()
	if err != nil {
		return err
	}
	log, err := c.StartExtra(processOf(name), binary, Command, string(folder))
	if err != nil {
		return err
	}
	var network Network
	err = await(ctx, c, name, "to have its network", func() error {
		network, err = folder.Network()
		// The process takes the network of an earlier one away before it makes its own.
		if err == nil && again && network.Made == before.Made {
			err = errors.New("there is only the network of an earlier process")
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%w; see %s", err, c.LogFile(log))
	}
	certificate, key, err := c.ServingCertificate(name, network.Address())
	if err != nil {
		return err
	}
	if err := cluster.WriteFile(folder.Key(), key); err != nil {
		return err
	}
	return cluster.WriteFile(folder.Certificate(), certificate)
}

// prepare writes what the process of a node reads.
func prepare(c *cluster.Cluster, folder Folder, name string, options *Options) error {
	if err := os.MkdirAll(string(folder), 0o700); err != nil {
		return fmt.Errorf("realnode: %w", err)
	}
	// What an earlier process has left says nothing of this one.
	for _, file := range []string{folder.Certificate(), folder.Key(), folder.Ready()} {
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("realnode: %w", err)
		}
	}
	server, err := c.ServerAddress()
	if err != nil {
		return err
	}
	plan := Plan{
		Name: name, Server: server, Authority: c.AuthorityFile(), Labels: options.Labels, MaxPods: options.MaxPods, Images: options.Images,
	}
	if err := writeJSON(folder.plan(), plan); err != nil {
		return err
	}
	config, err := c.AsNode(name)
	if err != nil {
		return err
	}
	config.Host = "https://" + ServiceAddress
	return cluster.WriteKubeconfig(config, folder.Kubeconfig())
}

// await waits until something is so, and fails when the node's process has ended.
func await(ctx context.Context, c *cluster.Cluster, name, what string, missing func() error) error {
	err := eventually.Until(ctx, 0, pollInterval, func() error {
		err := missing()
		if err != nil && !c.ExtraRuns(processOf(name)) {
			return eventually.Final(fmt.Errorf("its process has ended: %w", err))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("realnode: waiting for node %s %s: %w", name, what, err)
	}
	return nil
}

func awaitReady(ctx context.Context, c *cluster.Cluster, clients kubernetes.Interface, name string) error {
	return await(ctx, c, name, "to be Ready", func() error {
		node, err := clients.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %v", node.Status.Conditions)
	})
}

// Remove ends the kubelet and all containers of a node and removes its Node.
func Remove(ctx context.Context, c *cluster.Cluster, name string) error {
	folder := FolderOf(c, name)
	if _, err := folder.Network(); err == nil && !c.ExtraRuns(processOf(name)) {
		// It was killed, and has left containers and mounts. The next one of the folder ends them.
		plan, err := folder.Plan()
		if err != nil {
			return err
		}
		if err := add(ctx, c, name, &Options{Labels: plan.Labels, MaxPods: plan.MaxPods, Images: plan.Images}); err != nil {
			return err
		}
		err = await(ctx, c, name, "to clean up", func() error {
			_, err := os.Stat(folder.Ready())
			return err
		})
		if err != nil {
			return err
		}
	}
	if err := c.EndExtra(processOf(name)); err != nil {
		return err
	}
	if err := os.RemoveAll(string(folder)); err != nil {
		return fmt.Errorf("realnode: removing what node %s has left: %w", name, err)
	}
	clients, err := kubernetes.NewForConfig(c.Admin())
	if err != nil {
		return fmt.Errorf("realnode: making a client: %w", err)
	}
	if err := clients.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("realnode: removing Node %s: %w", name, err)
	}
	return nil
}
