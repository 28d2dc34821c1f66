package operator

import (
	"net"
	"time"

	"k8s.io/client-go/rest"
)

// ownConnection returns a configuration whose clients share no connection with clients of other configurations. By default, all clients of a process
// share one HTTP/2 connection. The API server sends on it frame by frame, so on a busy machine each event of a watch waits for the answers to the
// writes of all workers, and the cache falls behind by seconds. client-go shares a connection unless the configuration has a function that dials
// (https://github.com/kubernetes/client-go/blob/v0.37.1/transport/cache.go). The function that ownConnection sets dials like client-go's own.
func ownConnection(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	if config.Dial == nil {
		config.Dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	return config
}
