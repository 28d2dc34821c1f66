package undecodable

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Source reads the objects of one kind from the API server.
type Source struct {
	// Lists and Watches send the requests; their answers are JSON. They may be the same.
	Lists, Watches rest.Interface
	// Resource is the name of the kind in URLs. Namespace limits the objects; empty is for all, and for a kind without namespaces.
	Resource, Namespace string
	// Decode decodes one object as the function Decode does. It may change the text.
	Decode func(text []byte) (client.Object, error)
}

// ListWatch returns what fills an informer.
func (s *Source) ListWatch() *toolscache.ListWatch {
	return &toolscache.ListWatch{ListWithContextFunc: s.list, WatchFuncWithContext: s.watch}
}

func (s *Source) request(from rest.Interface, options metav1.ListOptions) *rest.Request {
	return from.Get().NamespaceIfScoped(s.Namespace, s.Namespace != "").Resource(s.Resource).VersionedParams(&options, metav1.ParameterCodec)
}

func (s *Source) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	// Only Error reads the message of a refusal.
	result := s.request(s.Lists, options).Do(ctx)
	if err := result.Error(); err != nil {
		return nil, err
	}
	text, err := result.Raw()
	if err != nil {
		return nil, err
	}
	all := &internalversion.List{}
	var items []byte
	isObject := eachMember(text, func(of member) bool {
		switch string(of.key) {
		case "metadata":
			err = json.Unmarshal(text[of.value:of.to], &all.ListMeta)
		case "items":
			items = text[of.value:of.to]
		}
		return err == nil
	})
	if err != nil {
		return nil, fmt.Errorf("decoding a list of %s: %w", s.Resource, err)
	}
	isList, err := eachItem(items, func(item []byte) error {
		object, err := s.Decode(item)
		all.Items = append(all.Items, object)
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case !isObject || !isList && string(bytes.TrimSpace(items)) != "null" || all.ResourceVersion == "":
		return nil, fmt.Errorf("the answer to a list of %s is no list", s.Resource)
	}
	return all, nil
}

func (s *Source) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch, options.AllowWatchBookmarks = true, true
	body, err := s.request(s.Watches, options).Stream(ctx)
	switch {
	case options.SendInitialEvents == nil && isBroken(err):
		// The reflector tries a refusal for too many requests again after a while, from where it is. After any other error it lists all objects.
		log.FromContext(ctx).Info("a watch did not begin; trying again", "resource", s.Resource, "error", err.Error())
		return nil, apierrors.NewTooManyRequestsError(fmt.Sprintf("watching %s: %v", s.Resource, err))
	case err != nil:
		return nil, err
	}
	reporter := apierrors.NewClientErrorReporter(http.StatusInternalServerError, http.MethodGet, "ClientWatchDecoding")
	return watch.NewStreamWatcher(NewDecoder(body, s.Decode), reporter), nil
}

// isBroken reports whether a request may have failed because its connection has ended, as when an API server restarts.
func isBroken(err error) bool {
	return utilnet.IsProbableEOF(err) || utilnet.IsTimeout(err) || utilnet.IsHTTP2ConnectionLost(err)
}
