package vcenter

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// Tag attaches a tag to a virtual machine, in one call with all others that are to get it at about the same time. To attach it again changes nothing.
func (v *VCenter) Tag(ctx context.Context, tag string, vm *VM) error {
	ctx, cancel := context.WithTimeout(ctx, v.limits.Task)
	defer cancel()
	return v.tagging.do(ctx, tag, vm.Ref)
}

// attachTag attaches a tag to virtual machines. If it cannot be attached to all of them each is tried alone, and has an error of its own.
func (v *VCenter) attachTag(
	ctx context.Context, tag string, refs []types.ManagedObjectReference,
) (failed map[types.ManagedObjectReference]error, err error) {
	err = v.attachTogether(ctx, tag, refs)
	var attach *attachError
	if len(refs) == 1 || !errors.As(err, &attach) {
		return nil, err
	}
	failed = map[types.ManagedObjectReference]error{}
	for _, ref := range refs {
		failed[ref] = v.attachTogether(ctx, tag, []types.ManagedObjectReference{ref})
	}
	return failed, nil
}

// attachTogether attaches a tag to virtual machines in one call. govmomi's own method ignores the response body, which lists failures despite status
// 200: https://github.com/vmware/govmomi/blob/v0.52.0/vapi/tags/tag_association.go#L84
func (v *VCenter) attachTogether(ctx context.Context, tag string, refs []types.ManagedObjectReference) error {
	type object struct {
		Type string `json:"type"`
		ID   string `json:"id"`
	}
	var spec struct {
		ObjectIDs []object `json:"object_ids"`
	}
	for _, ref := range refs {
		spec.ObjectIDs = append(spec.ObjectIDs, object{Type: ref.Type, ID: ref.Value})
	}
	var answer bytes.Buffer
	err := v.brief(ctx, func(ctx context.Context, current *login) error {
		manager, err := current.rest.tags(ctx)
		if err != nil {
			return err
		}
		answer.Reset()
		url := manager.Resource("/com/vmware/cis/tagging/tag-association").WithID(tag).WithAction("attach-tag-to-multiple-objects")
		return manager.Do(ctx, url.Request(http.MethodPost, spec), &answer)
	})
	if err == nil {
		err = attachFailed(answer.Bytes())
	}
	if err != nil {
		return fmt.Errorf("attaching the tag %s: %w", tag, err)
	}
	return nil
}

// attachError is the error of a tag that could not be attached.
type attachError struct{ messages string }

// Error returns what the vCenter says.
func (e *attachError) Error() string {
	return cmp.Or(e.messages, "the vCenter does not say why it cannot be attached")
}

// attachFailed returns an error if an answer says that a tag has not been attached. An empty one says that it has.
func attachFailed(answer []byte) error {
	if len(bytes.TrimSpace(answer)) == 0 {
		return nil
	}
	var outcome struct {
		Value struct {
			Success *bool                     `json:"success"`
			Errors  []rest.LocalizableMessage `json:"error_messages"`
		} `json:"value"`
	}
	if err := json.Unmarshal(answer, &outcome); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if outcome.Value.Success == nil || *outcome.Value.Success {
		return nil
	}
	var messages []string
	for i := range outcome.Value.Errors {
		messages = append(messages, outcome.Value.Errors[i].DefaultMessage)
	}
	return &attachError{messages: strings.Join(messages, "; ")}
}

// FindTag returns the identity of a tag in a category; empty if there is none.
func (v *VCenter) FindTag(ctx context.Context, category, name string) (string, error) {
	return cached(v.inventory, fmt.Sprintf("tag %s %s", category, name), func() (id string, err error) {
		err = v.brief(ctx, func(ctx context.Context, current *login) error {
			manager, err := current.rest.tags(ctx)
			if err == nil {
				id, err = findTag(ctx, manager, category, name)
			}
			return err
		})
		return id, err
	})
}

// findTag reads the tags of one category, and not all of the vCenter.
func findTag(ctx context.Context, manager *tags.Manager, category, name string) (string, error) {
	categories, err := manager.GetCategories(ctx)
	if err != nil {
		return "", fmt.Errorf("reading the categories of tags: %w", err)
	}
	for i := range categories {
		if categories[i].Name != category {
			continue
		}
		found, err := manager.GetTagsForCategory(ctx, categories[i].ID)
		if err != nil {
			return "", fmt.Errorf("reading the tags of category %s: %w", category, err)
		}
		for j := range found {
			if found[j].Name == name {
				return found[j].ID, nil
			}
		}
	}
	return "", nil
}

// Location returns the names of the tags in two categories that a host has, or the nearest of the objects that it is in; empty for none.
func (v *VCenter) Location(ctx context.Context, host types.ManagedObjectReference, categories [2]string) ([2]string, error) {
	return cached(v.inventory, fmt.Sprintf("location %s %q", host.Value, categories), func() (location [2]string, err error) {
		err = v.brief(ctx, func(ctx context.Context, current *login) error {
			location, err = findLocation(ctx, current, host, categories)
			return err
		})
		return location, err
	})
}

func findLocation(ctx context.Context, current *login, host types.ManagedObjectReference, categories [2]string) (location [2]string, err error) {
	ancestors, err := mo.Ancestors(ctx, current.client, property.DefaultCollector(current.client).Reference(), host)
	if err != nil {
		return location, fmt.Errorf("reading what host %s is in: %w", host.Value, err)
	}
	refs := make([]mo.Reference, len(ancestors))
	for i := range ancestors {
		refs[i] = ancestors[i].Self
	}
	manager, err := current.rest.tags(ctx)
	if err != nil {
		return location, err
	}
	attached, err := manager.GetAttachedTagsOnObjects(ctx, refs)
	if err != nil {
		return location, fmt.Errorf("reading the tags of host %s: %w", host.Value, err)
	}
	byObject := map[string][]tags.Tag{}
	for i := range attached {
		byObject[attached[i].ObjectID.Reference().Value] = attached[i].Tags
	}
	// The first ancestor is the root.
	for i := len(refs) - 1; i >= 0; i-- {
		if err := nearest(ctx, manager, byObject[refs[i].Reference().Value], categories, &location); err != nil {
			return location, err
		}
	}
	return location, nil
}

// nearest takes over what the tags of an object say that no nearer object has said.
func nearest(ctx context.Context, manager *tags.Manager, attached []tags.Tag, categories [2]string, location *[2]string) error {
	for i := range attached {
		category, err := manager.GetCategory(ctx, attached[i].CategoryID)
		if err != nil {
			return fmt.Errorf("reading the category of tag %s: %w", attached[i].Name, err)
		}
		for j, wanted := range categories {
			if wanted != "" && location[j] == "" && category.Name == wanted {
				location[j] = attached[i].Name
			}
		}
	}
	return nil
}

// group is a change of a group of virtual machines in a cluster. All changes of one cluster go through one key at a time.
type group struct {
	cluster types.ManagedObjectReference
	name    string
	remove  bool
}

// ErrNoGroup is the error of a group of virtual machines that the cluster does not have.
var ErrNoGroup = errors.New("the cluster has no such group of virtual machines")

// JoinGroup adds a virtual machine to a group of its cluster, and LeaveGroup removes it; both in one call with others.
func (v *VCenter) JoinGroup(ctx context.Context, cluster types.ManagedObjectReference, name string, vm *VM) error {
	ctx, cancel := context.WithTimeout(ctx, v.limits.Task)
	defer cancel()
	return v.groups.do(ctx, group{cluster: cluster, name: name}, vm.Ref)
}

// LeaveGroup removes a virtual machine from a group of its cluster. A group that is not there is no error.
func (v *VCenter) LeaveGroup(ctx context.Context, cluster types.ManagedObjectReference, name string, vm *VM) error {
	ctx, cancel := context.WithTimeout(ctx, v.limits.Task)
	defer cancel()
	if err := v.groups.do(ctx, group{cluster: cluster, name: name, remove: true}, vm.Ref); !errors.Is(err, ErrNoGroup) {
		return err
	}
	return nil
}
