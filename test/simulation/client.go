package simulation

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
)

// controllerClient is what a controller writes with. It reads from the cache, as the operator's client does.
type controllerClient struct {
	client.Client
	cache *controllerCache
	// live clients read from the API server.
	live bool
}

func (c *controllerClient) process() *process { return c.cache.process }

// selectable are the fields that the API server supports in field selectors.
var selectable = map[string]client.IndexerFunc{
	"metadata.name": func(object client.Object) []string { return []string{object.GetName()} },
	"spec.nodeName": func(object client.Object) []string {
		if pod, ok := object.(*corev1.Pod); ok {
			return []string{pod.Spec.NodeName}
		}
		return nil
	},
}

// known are the types of the kinds.
var known = sync.OnceValue(func() *runtime.Scheme {
	known := runtime.NewScheme()
	must(errors.Join(clientgoscheme.AddToScheme(known), machinev1beta1.Install(known), v1alpha1.AddToScheme(known), medik8s.AddToScheme(known)))
	return known
})

// Scheme knows the types of the kinds.
func (c *controllerClient) Scheme() *runtime.Scheme { return known() }

// ask holds a request until the scheduler lets it through.
func (c *controllerClient) ask(ctx context.Context, what string, mutates bool, act func(request) error, answer func()) error {
	p := c.process()
	pass := passOf(ctx)
	p.mu.Lock()
	item := p.items[pass]
	p.mu.Unlock()
	r := request{who: c.cache.controller, pass: pass}
	return p.gates.pass(ctx, &call{
		controller: c.cache.controller, pass: pass, item: item, what: what, mutates: mutates, act: func() error { return act(r) }, answer: answer,
	})
}

// Get reads from the cache, or from the API server.
func (c *controllerClient) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if !c.live {
		return c.cache.Get(ctx, key, object, options...)
	}
	k, name := kindOf(object), keyFor(key.Namespace, key.Name)
	return c.ask(ctx, "get "+k.name+" "+name, false, func(request) error {
		found := c.process().server.get(k, name)
		if found == nil {
			return c.process().server.notFound(k, name)
		}
		return assign(object, copied(found))
	}, nil)
}

// List reads from the cache, or from the API server.
func (c *controllerClient) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if !c.live {
		return c.cache.List(ctx, list, options...)
	}
	k := kindOf(list)
	return c.ask(ctx, "live list of "+k.name, false, func(request) error {
		list.SetResourceVersion(strconv.Itoa(c.process().server.version))
		return fill(list, c.process().server.objects[k], selectable, options)
	}, nil)
}

// Create makes an object.
func (c *controllerClient) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	var wanted client.CreateOptions
	wanted.ApplyOptions(options)
	if err := c.owner(wanted.FieldManager); err != nil {
		return err
	}
	var made client.Object
	return c.ask(ctx, "create "+kindOf(object).name+" "+keyOf(object), true, func(r request) error {
		var err error
		made, err = c.process().server.create(r, object)
		return err
	}, func() { must(assign(object, copied(made))) })
}

// Delete deletes an object.
func (c *controllerClient) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	var wanted client.DeleteOptions
	wanted.ApplyOptions(options)
	g := guards{}
	if wanted.Preconditions != nil {
		g = guards{uid: wanted.Preconditions.UID, version: wanted.Preconditions.ResourceVersion}
	}
	k, key := kindOf(object), keyOf(object)
	return c.ask(ctx, "delete "+k.name+" "+key, true, func(r request) error {
		return c.process().server.delete(r, k, key, g, wanted.GracePeriodSeconds)
	}, nil)
}

// Update replaces an object.
func (c *controllerClient) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	var wanted client.UpdateOptions
	wanted.ApplyOptions(options)
	if err := c.owner(wanted.FieldManager); err != nil {
		return err
	}
	k, key, version := kindOf(object), keyOf(object), object.GetResourceVersion()
	var after client.Object
	return c.ask(ctx, "update "+k.name+" "+key, true, func(r request) error {
		var err error
		r.verb = "update"
		after, err = c.process().server.change(r, k, key, "", guards{version: &version}, func(client.Object) (client.Object, error) {
			return copied(object), nil
		})
		return err
	}, func() { must(assign(object, copied(after))) })
}

// Patch patches an object.
func (c *controllerClient) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	var wanted client.PatchOptions
	wanted.ApplyOptions(options)
	if err := c.owner(wanted.FieldManager); err != nil {
		return err
	}
	return c.patch(ctx, "", object, patch)
}

func (c *controllerClient) patch(ctx context.Context, part string, object client.Object, patch client.Patch) error {
	body, err := patch.Data(object)
	if err != nil {
		return err
	}
	if c.process().config.tamper != nil {
		body = c.process().config.tamper(c.cache.controller, object, body)
	}
	k, key, how := kindOf(object), keyOf(object), patch.Type()
	var after client.Object
	return c.ask(ctx, "patch "+k.name+" "+key+" "+part, true, func(r request) error {
		var err error
		r.verb, r.patch = "patch", body
		if part != "" {
			r.verb = part
		}
		after, err = c.process().server.change(r, k, key, part, guards{}, func(before client.Object) (client.Object, error) {
			return patched(k, before, how, body)
		})
		return err
	}, func() { must(assign(object, copied(after))) })
}

// owner makes sure that each controller writes under its own name.
func (c *controllerClient) owner(manager string) error {
	if manager != "" && manager != "drover-"+c.cache.controller {
		return c.process().fault("%s writes as %s", c.cache.controller, manager)
	}
	return nil
}

// Status writes the status.
func (c *controllerClient) Status() client.SubResourceWriter { return c.SubResource("status") }

// SubResource writes a part of an object.
func (c *controllerClient) SubResource(part string) client.SubResourceClient {
	return &partClient{inner: c, part: part}
}

type partClient struct {
	client.SubResourceClient
	inner *controllerClient
	part  string
}

// Patch patches the part.
func (c *partClient) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
	var wanted client.SubResourcePatchOptions
	wanted.ApplyOptions(options)
	if err := c.inner.owner(wanted.FieldManager); err != nil {
		return err
	}
	return c.inner.patch(ctx, c.part, object, patch)
}

// Create asks for an eviction.
func (c *partClient) Create(ctx context.Context, object, body client.Object, _ ...client.SubResourceCreateOption) error {
	k, key := kindOf(object), keyOf(object)
	if c.part != "eviction" || k.name != "Pod" {
		return c.inner.process().fault("a %s of %s is created", c.part, k.name)
	}
	g := guards{uid: evictionUID(body)}
	return c.inner.ask(ctx, "evict Pod "+key, true, func(r request) error {
		return c.inner.process().server.delete(r, k, key, g, nil)
	}, nil)
}

// Update is nothing that a controller does.
func (c *partClient) Update(_ context.Context, object client.Object, _ ...client.SubResourceUpdateOption) error {
	return c.inner.process().fault("the %s of %s is replaced", c.part, keyOf(object))
}

func evictionUID(body client.Object) *types.UID {
	eviction, ok := body.(*policyv1.Eviction)
	if !ok || eviction.DeleteOptions == nil || eviction.DeleteOptions.Preconditions == nil {
		return nil
	}
	return eviction.DeleteOptions.Preconditions.UID
}

func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("the simulation itself is wrong: %v", err))
	}
}
