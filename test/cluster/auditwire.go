package cluster

import (
	"slices"
	"time"
)

// wireEvent is the part of audit.k8s.io/v1 Event that is read. The full type costs several times as much to decode.
type wireEvent struct {
	Stage        string
	RequestURI   string
	Verb         string
	UserAgent    string
	User         struct{ Username string }
	Impersonated *struct {
		Username string
	} `json:"impersonatedUser"`
	ObjectRef struct {
		Resource, Namespace, Name, APIGroup, Subresource string
	}
	ResponseStatus struct {
		Code    int
		Message string
	}
	// RequestObject is the body of an eviction or of a pod's deletion.
	RequestObject struct {
		deleteOptions

		DeleteOptions deleteOptions
	}
	RequestReceivedTimestamp time.Time
	StageTimestamp           time.Time
}

// deleteOptions are the options of a deletion or an eviction.
type deleteOptions struct {
	GracePeriodSeconds *int64
	Preconditions      struct{ UID string }
}

// repeated reports whether the event is the second one of its request: a request that may take long has one when its
// answer begins and one when it ends.
func (w *wireEvent) repeated() bool {
	if w.Stage != "ResponseComplete" {
		return false
	}
	long := []string{"exec", "attach", "portforward", "proxy", "log"}
	return w.Verb == "watch" || w.Verb == "proxy" || slices.Contains(long, w.ObjectRef.Subresource)
}

func (w *wireEvent) event() AuditEvent {
	user := w.User.Username
	if w.Impersonated != nil {
		user = w.Impersonated.Username
	}
	options := w.RequestObject.deleteOptions
	if w.ObjectRef.Subresource == "eviction" {
		options = w.RequestObject.DeleteOptions
	}
	return AuditEvent{
		UID: options.Preconditions.UID, Grace: options.GracePeriodSeconds,
		User: user, UserAgent: w.UserAgent, Verb: w.Verb, URI: w.RequestURI,
		Code: w.ResponseStatus.Code, Message: w.ResponseStatus.Message,
		Group: w.ObjectRef.APIGroup, Resource: w.ObjectRef.Resource, Subresource: w.ObjectRef.Subresource,
		Namespace: w.ObjectRef.Namespace, Name: w.ObjectRef.Name,
		Received: w.RequestReceivedTimestamp, Answered: w.StageTimestamp,
	}
}
