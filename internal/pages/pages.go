// Package pages reads objects of any size from the API server: page by page, and few pages at once.
package pages

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// size is how many objects a page has, and atOnce how many pages a Reader keeps at the same time. A Pod may be as large as a request, and any tenant
// can create Pods: this bounds how much of the operator's memory they take.
const size, atOnce = 50, 2

// Reader reads from the API server. It is safe for concurrent use.
type Reader struct {
	api   client.Reader
	turns chan struct{}
}

// NewReader returns a Reader of an API server.
func NewReader(api client.Reader) *Reader {
	return &Reader{api: api, turns: make(chan struct{}, atOnce)}
}

// Each calls visit with the objects of a list that a selector selects, nil for all, until it returns false. list is an empty list of their kind,
// which is not changed. visit must not keep an object, nor any part of it that is large: the rest of its page would stay in memory.
func Each[T client.Object](ctx context.Context, r *Reader, list client.ObjectList, selector fields.Selector, visit func(T) (more bool)) error {
	options := &client.ListOptions{Limit: size, FieldSelector: selector}
	for more := true; more; {
		var err error
		if options.Continue, more, err = readPage(ctx, r, list, options, visit); err != nil {
			return err
		}
		more = more && options.Continue != ""
	}
	return nil
}

// readPage visits the objects of one page, and returns where the next one begins.
func readPage[T client.Object](
	ctx context.Context, r *Reader, list client.ObjectList, options *client.ListOptions, visit func(T) (more bool),
) (next string, more bool, err error) {
	select {
	case r.turns <- struct{}{}:
		defer func() { <-r.turns }()
	case <-ctx.Done():
		return "", false, ctx.Err()
	}
	page, ok := list.DeepCopyObject().(client.ObjectList)
	if !ok {
		return "", false, fmt.Errorf("%T is not a list", list)
	}
	if err := r.api.List(ctx, page, options); err != nil {
		return "", false, err
	}
	more = true
	err = meta.EachListItem(page, func(item runtime.Object) error {
		if object, ok := item.(T); ok && more {
			more = visit(object)
		}
		return nil
	})
	return page.GetContinue(), more, err
}
