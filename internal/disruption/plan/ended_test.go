package plan

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
)

func TestEnded(t *testing.T) {
	pace := Pace{MinReady: 5 * time.Minute, Deadline: 30 * time.Minute}
	reserved := func(ago time.Duration) v1alpha1.Reservation {
		return v1alpha1.Reservation{Time: metav1.NewTime(now.Add(-ago))}
	}
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	old := reserved(time.Hour)
	for name, test := range map[string]struct {
		work  Work
		pace  Pace
		ended bool
		after time.Duration
	}{
		"work goes on, the Node has a sign":        {Work{Reservation: old}, pace, false, 0},
		"work goes on, the Node has none":          {Work{Reservation: old, Since: ago(time.Hour)}, pace, false, 0},
		"work is over, the Node has a sign":        {Work{Reservation: old, Over: true}, pace, false, 0},
		"work is over, the Node just has none":     {Work{Reservation: old, Over: true, Since: ago(time.Minute)}, pace, false, 4 * time.Minute},
		"work is over, the Node has none for long": {Work{Reservation: old, Over: true, Since: ago(5 * time.Minute)}, pace, true, 0},
		"work is over at once":                     {Work{Reservation: reserved(0), Over: true, Since: now}, Pace{}, true, 0},
		"orphaned, just reserved": {
			Work{Reservation: reserved(time.Minute), Orphaned: true, Since: ago(time.Hour)}, Pace{}, false, time.Minute,
		},
		"orphaned, two minutes old": {
			Work{Reservation: reserved(2 * time.Minute), Orphaned: true, Since: ago(time.Hour)}, Pace{}, true, 0,
		},
		"orphaned, two minutes old, Ready again": {
			Work{Reservation: reserved(2 * time.Minute), Orphaned: true, Since: ago(time.Minute)}, pace, false, 4 * time.Minute,
		},
		"orphaned, the Node has a sign":               {Work{Reservation: reserved(time.Minute), Orphaned: true}, pace, false, time.Minute},
		"orphaned, the Node has a sign, two minutes":  {Work{Reservation: reserved(2 * time.Minute), Orphaned: true}, pace, true, 0},
		"orphaned, but the work is over":              {Work{Reservation: reserved(0), Orphaned: true, Over: true, Since: now}, Pace{}, true, 0},
		"orphaned, but the work is over, with a sign": {Work{Reservation: old, Orphaned: true, Over: true}, Pace{}, false, 0},
		"orphaned, reserved by a clock that was a day ahead": {
			Work{Reservation: reserved(-24 * time.Hour), Orphaned: true, Since: ago(time.Hour)}, pace, true, 0,
		},
		"orphaned, reserved by a clock that is a second ahead": {
			Work{Reservation: reserved(-time.Second), Orphaned: true, Since: ago(time.Hour)}, pace, false, 2*time.Minute + time.Second,
		},
		"gone, a successor is awaited": {Work{Reservation: old, Gone: true, Since: ago(10 * time.Minute)}, pace, false, 20 * time.Minute},
		"gone, replaced":               {Work{Reservation: old, Gone: true, Since: now, Replaced: true}, pace, true, 0},
		"gone, the deadline is over":   {Work{Reservation: old, Gone: true, Since: ago(30 * time.Minute)}, pace, true, 0},
		"gone, the object too: a successor is awaited": {
			Work{Reservation: old, Gone: true, Orphaned: true, Since: ago(time.Minute)}, pace, false, 29 * time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if ended, after := Ended(&test.work, test.pace, now); ended != test.ended || after != test.after {
				t.Errorf("ended %v, after %s", ended, after)
			}
		})
	}
}
