package pages

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// server has some Pods, and serves them in pages.
type server struct {
	client.Reader

	pods           int
	fail           error
	lists, current atomic.Int32
	most           atomic.Int32
}

func (s *server) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	s.lists.Add(1)
	s.most.Store(max(s.most.Load(), s.current.Add(1)))
	defer s.current.Add(-1)
	of := (&client.ListOptions{}).ApplyOptions(options)
	begin, _ := strconv.Atoi(of.Continue)
	if begin > 0 && s.fail != nil {
		return s.fail
	}
	pods, ok := list.(*corev1.PodList)
	if !ok || of.Limit <= 0 || len(pods.Items) > 0 {
		return fmt.Errorf("unexpected list %T of %d", list, of.Limit)
	}
	end := min(begin+int(of.Limit), s.pods)
	for i := begin; i < end; i++ {
		pods.Items = append(pods.Items, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: of.FieldSelector.String() + strconv.Itoa(i)}})
	}
	if end < s.pods {
		pods.Continue = strconv.Itoa(end)
	}
	return nil
}

func TestEach(t *testing.T) {
	expired := errors.New("expired")
	for name, c := range map[string]struct {
		pods, stopAfter int
		fail, err       error
		visited, lists  int
	}{
		"none":                {0, 1000, nil, nil, 0, 1},
		"a page":              {size, 1000, nil, nil, size, 1},
		"several pages":       {2*size + 1, 1000, nil, nil, 2*size + 1, 3},
		"stops in a page":     {2*size + 1, 3, nil, nil, 3, 1},
		"a page has failed":   {2*size + 1, 1000, expired, expired, size, 2},
		"stops before it has": {2*size + 1, size, expired, nil, size, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s, visited := &server{pods: c.pods, fail: c.fail}, 0
			err := Each(t.Context(), NewReader(s), &corev1.PodList{}, fields.OneTermEqualSelector("a", "b"), func(pod *corev1.Pod) bool {
				if want := "a=b" + strconv.Itoa(visited); pod.Name != want {
					t.Errorf("visits %s instead of %s", pod.Name, want)
				}
				visited++
				return visited < c.stopAfter
			})
			if !errors.Is(err, c.err) || visited != c.visited || int(s.lists.Load()) != c.lists {
				t.Errorf("visited %d in %d pages, error %v", visited, s.lists.Load(), err)
			}
		})
	}
}

// TestEach_PagesAtOnce: however many lists are read, few of their pages are in memory.
func TestEach_PagesAtOnce(t *testing.T) {
	s := &server{pods: 10 * size}
	r := NewReader(s)
	var most, current atomic.Int32
	var group errgroup.Group
	for range 20 {
		group.Go(func() error {
			return Each(t.Context(), r, &corev1.PodList{}, fields.Everything(), func(pod *corev1.Pod) bool {
				most.Store(max(most.Load(), current.Add(1)))
				current.Add(-1)
				return !strings.Contains(pod.Name, "x")
			})
		})
	}
	if err := group.Wait(); err != nil || most.Load() > atOnce || s.most.Load() > atOnce {
		t.Errorf("%d pages are read and %d visited at once, error %v", s.most.Load(), most.Load(), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range atOnce {
		r.turns <- struct{}{}
	}
	if err := Each(ctx, r, &corev1.PodList{}, fields.Everything(), func(*corev1.Pod) bool { return true }); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
