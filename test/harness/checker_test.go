package harness

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// What went while a watch was broken is known by its last version only. Counted as gone then, it would be missing where others were evicted
// while it was still there.
func TestChecker_DeletionDuringBrokenWatch(t *testing.T) {
	pod := func(name, version string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}}
	}
	k := &Checker{}
	k.observe(pod("a", "5"), false)
	k.observe(pod("b", "9"), false)
	k.observe(cache.DeletedFinalStateUnknown{Obj: pod("a", "5")}, true)
	k.observe(pod("c", "12"), true)
	for i, want := range []uint64{5, 9, 9, 12} {
		if got := k.waiting[i]; got.version != want || got.gone != (i >= 2) {
			t.Errorf("%s counts at %d, gone %v; want %d", got.object.GetName(), got.version, got.gone, want)
		}
	}
}
