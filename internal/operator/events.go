package operator

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// newRecorder makes the recorder of all events. It is the one of core/v1: that of events.k8s.io takes events of one object and reason
// for one series whatever they say, so of ten refused keys only the first would be told.
func newRecorder(ctx context.Context, mgr manager.Manager) (record.EventRecorder, error) {
	client, err := typedcorev1.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("making a client for events: %w", err)
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.Events("")})
	return broadcaster.NewRecorder(mgr.GetScheme(), corev1.EventSource{Component: "drover"}), nil
}
