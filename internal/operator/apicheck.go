package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// apiCheck asks the API server whether it answers, at most once in a while: every replica is probed every few seconds. It also finds out what that
// lacks of what Drover makes use of.
type apiCheck struct {
	client rest.Interface
	every  time.Duration
	mu     sync.Mutex
	asked  time.Time
	last   error
	// version is the version of the API server; empty until it is known.
	version string
	// lacks is what that version lacks; empty for nothing.
	lacks string
}

func (c *apiCheck) ask(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.asked) < c.every {
		return c.last
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	body, err := c.client.Get().AbsPath("/version").DoRaw(ctx)
	if err == nil {
		c.learn(ctx, body)
	}
	c.last, c.asked = err, time.Now()
	return err
}

// learn notes the version in an answer. What that lacks is asked for when the version is another one, because API servers are upgraded.
func (c *apiCheck) learn(ctx context.Context, answer []byte) {
	info := version.Info{}
	if err := json.Unmarshal(answer, &info); err != nil || info.GitVersion == c.version {
		return
	}
	streams, err := c.streamsLists(ctx)
	if err != nil {
		return // the next check asks again
	}
	c.version, c.lacks = info.GitVersion, ""
	if !streams {
		c.lacks = "without WatchList: Drover needs more memory when it starts, because it reads each kind in one piece"
	}
	log.FromContext(ctx).Info("API server", "version", c.version, "lacks", c.lacks)
}

// streamsLists reports whether the API server sends lists as a stream, as it does by default in Kubernetes 1.32, and since 1.34: otherwise it refuses
// a watch that begins with one. No object has the name that is watched.
func (c *apiCheck) streamsLists(ctx context.Context) (bool, error) {
	stream, err := c.client.Get().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").
		Param("watch", "true").Param("sendInitialEvents", "true").Param("allowWatchBookmarks", "true").
		Param("resourceVersionMatch", "NotOlderThan").Param("fieldSelector", "metadata.name=none.drover.dev").Stream(ctx)
	if apierrors.IsInvalid(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, stream.Close()
}

// lines describes the API server for /readyz?verbose.
func (c *apiCheck) lines() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.version == "" {
		return nil
	}
	line := "kubernetes: " + c.version
	if c.lacks != "" {
		line += fmt.Sprintf(" (%s)", c.lacks)
	}
	return []string{line}
}
