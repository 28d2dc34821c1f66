package machineset

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/machineset/plan"
)

// What fails for one usually fails for all: a thousand denied requests say no more than one.
func TestCreate_StopsAfterDenial(t *testing.T) {
	s := newFixture(t, Options{}, setOf(1000))
	s.fail = only("create", denied)
	result := s.reconciles("create Machine, status MachineSet/web")
	if result.RequeueAfter != minDenied {
		t.Errorf("tries again in %s", result.RequeueAfter)
	}
	s.expect(0, 0, 0, "MachinesCreated=False CreateError", "Resized=False ScalingUp")
	status := s.set().Status
	if *status.ErrorReason != plan.CreateError || *status.ErrorMessage != `machines "x" is forbidden: quota` {
		t.Errorf("%s %s", *status.ErrorReason, *status.ErrorMessage)
	}
	if reasons, last := s.drainEvents(); reasons != "FailedCreate ReconcileError" || !strings.Contains(last, "quota") {
		t.Errorf("events %s, %q", reasons, last)
	}
	// Whatever events come meanwhile.
	for range 3 {
		if result := s.reconciles(""); result.RequeueAfter != minDenied {
			t.Errorf("tries again in %s", result.RequeueAfter)
		}
	}
	waits := []int{2, 4, 8, 16, 32, 60, 60}
	for _, wait := range waits {
		s.clock.SetTime(s.clock.Now().Add(maxBackoff))
		if result := s.reconciles("create Machine"); result.RequeueAfter != time.Duration(wait)*time.Second {
			t.Errorf("tries again in %s, want %ds", result.RequeueAfter, wait)
		}
	}
	if got := s.metric("drover_machineset_creates_total", "denied"); got != float64(1+len(waits)) {
		t.Errorf("%v creations", got)
	}
	if reasons, _ := s.drainEvents(); reasons != "" {
		t.Errorf("reported again: %s", reasons)
	}
	// A new process finds it reported.
	s.restart(nil)
	s.reconciles("create Machine")
	if reasons, _ := s.drainEvents(); reasons != "" {
		t.Errorf("reported again: %s", reasons)
	}
	// Who changes the set need not wait for the back-off.
	s.fail = nil
	s.resize(4)
	s.reconciles("create Machine, create Machine, create Machine, create Machine, status MachineSet/web")
	s.expect(4, 0, 0, "MachinesCreated=True Created", "Resized=True Resized")
	if s.set().Status.ErrorReason != nil || s.set().Status.ErrorMessage != nil {
		t.Error("the error stays")
	}
}

func TestCreate_PartialFailures(t *testing.T) {
	s := newFixture(t, Options{}, setOf(20))
	var calls atomic.Int32
	s.fail = only("create", func(string) error {
		if calls.Add(1) > 5 {
			return denied("")
		}
		return nil
	})
	// Batches of 1, 2 and 4, of which two fail.
	result, writes, err := s.try("web")
	if err != nil || strings.Count(writes, "create") != 7 || result.RequeueAfter != minDenied {
		t.Fatalf("error %v, wrote %s, tries again in %s", err, writes, result.RequeueAfter)
	}
	s.expect(5, 0, 0, "MachinesCreated=False CreateError", "Resized=False ScalingUp")
	if reasons, _ := s.drainEvents(); reasons != "SuccessfulCreate FailedCreate ReconcileError" {
		t.Errorf("events %s", reasons)
	}
	s.fail = nil
	s.reconciles("")
	s.clock.SetTime(start.Add(minDenied))
	s.settle()
	s.expect(20, 0, 0, "MachinesCreated=True Created", "Resized=True Resized")
	if len(s.living()) != 20 || s.creates != 20 {
		t.Errorf("%d Machines, %d were created", len(s.living()), s.creates)
	}
}

func TestCreate_FailureReasons(t *testing.T) {
	kind, resource := schema.GroupKind{Kind: "Machine"}, schema.GroupResource{Resource: "machines"}
	for _, c := range []struct {
		name    string
		err     error
		reason  machinev1beta1.MachineSetStatusError
		message string
	}{
		{"the Machine is not valid", apierrors.NewInvalid(kind, "web-00001", field.ErrorList{field.Required(field.NewPath("spec"), "")}),
			"InvalidConfiguration", `Machine "web-*" is invalid`},
		{"the request makes no sense", apierrors.NewBadRequest("cannot unmarshal"), "InvalidConfiguration", "cannot unmarshal"},
		{"the Machine is too large", apierrors.NewRequestEntityTooLargeError("limit"), "InvalidConfiguration", "limit"},
		{"admission, quota or rights", apierrors.NewForbidden(resource, "web-00001", errors.New("quota")), "CreateError",
			`machines "web-*" is forbidden: quota`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newFixture(t, Options{}, setOf(1))
			s.fail = only("create", func(string) error { return c.err })
			s.reconciles("create Machine, status MachineSet/web")
			status := s.set().Status
			if status.ErrorReason == nil || *status.ErrorReason != c.reason || !strings.Contains(*status.ErrorMessage, c.message) {
				t.Errorf("%v %v", *status.ErrorReason, *status.ErrorMessage)
			}
		})
	}
}

// Drover does not report an API server that restarts, but one that keeps failing.
func TestCreate_TransientErrorsAreTolerated(t *testing.T) {
	s := newFixture(t, Options{}, setOf(1))
	s.fail = only("create", broken)
	s.reconciles("create Machine, status MachineSet/web")
	s.expect(0, 0, 0, "MachinesCreated=True Created", "Resized=False ScalingUp")
	for i := 1; i < tolerance; i++ {
		if reasons, _ := s.drainEvents(); reasons != "" {
			t.Errorf("events %s", reasons)
		}
		s.clock.SetTime(s.clock.Now().Add(time.Minute))
		s.settleFailing()
	}
	s.expect(0, 0, 0, "MachinesCreated=False CreateError", "Resized=False ScalingUp")
	if reasons, _ := s.drainEvents(); reasons != "FailedCreate ReconcileError" {
		t.Errorf("events %s", reasons)
	}
	// A new process has not counted enough failures yet, and keeps what was reported.
	s.restart(nil)
	s.reconciles("create Machine")
	// When nothing is missing any more, the failure is over.
	s.resize(0)
	s.reconciles("status MachineSet/web")
	s.expect(0, 0, 0, "MachinesCreated=True Created", "Resized=True Resized")
}

// settleFailing makes a pass that may try, and fail.
func (s *fixture) settleFailing() {
	s.t.Helper()
	if _, writes, err := s.try("web"); err != nil || !strings.Contains(writes, "create") {
		s.t.Fatalf("error %v, wrote %s", err, writes)
	}
}

// A MachineSet that is deleted with its namespace reports nothing.
func TestCreate_NamespaceTerminating(t *testing.T) {
	s := newFixture(t, Options{}, setOf(5))
	s.fail = only("create", func(string) error {
		err := apierrors.NewForbidden(schema.GroupResource{Resource: "machines"}, "web", errors.New("being terminated"))
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
		return err
	})
	if result := s.reconciles("create Machine, status MachineSet/web"); result.RequeueAfter != controller.RetryDenied {
		t.Errorf("tries again in %s", result.RequeueAfter)
	}
	s.expect(0, 0, 0, "MachinesCreated=True Created", "Resized=False ScalingUp")
	if reasons, _ := s.drainEvents(); reasons != "" {
		t.Errorf("events %s", reasons)
	}
}

// A creation whose answer is lost has been made, or not: to make another would be one too many.
func TestCreate_UnansweredRequests(t *testing.T) {
	for _, carriedOut := range []bool{true, false} {
		t.Run(fmt.Sprintf("carried out %v", carriedOut), func(t *testing.T) {
			s := newFixture(t, Options{}, setOf(1))
			lost := only("create", func(string) error { return apierrors.NewTimeoutError("no answer", 1) })
			if s.fail = lost; carriedOut {
				s.fail, s.lose = nil, lost
			}
			s.freeze()
			s.reconciles("create Machine, status MachineSet/web")
			s.thaw()
			s.fail, s.lose = nil, nil
			s.clock.SetTime(start.Add(time.Minute))
			s.settle()
			if s.creates != 1 || fmt.Sprint(s.living()) != "[web-00001]" {
				t.Errorf("%d were created, there are %v", s.creates, s.living())
			}
			s.expect(1, 0, 0)
		})
	}
}

// The same, while the API server itself answers with an older state: only the name shows that the Machine exists.
func TestCreate_UnansweredRequestsAndStaleServer(t *testing.T) {
	s := newFixture(t, Options{}, setOf(2))
	s.lose = only("create", func(string) error { return apierrors.NewTimeoutError("no answer", 1) })
	s.freeze()
	s.reconciles("create Machine, status MachineSet/web")
	s.lose = nil
	m := s.state()
	if fmt.Sprint(m.unanswered) != "[web-00001]" || !m.unverified {
		t.Fatalf("unsure of %v", m.unanswered)
	}
	m.unverified = false
	s.clock.SetTime(start.Add(time.Minute))
	s.cached.Reader = split{s.client, s.cached.Reader}
	s.reconciles("create Machine, create Machine, status MachineSet/web")
	if s.creates != 2 || fmt.Sprint(s.living()) != "[web-00001 web-00003]" || len(m.unanswered) != 0 {
		t.Errorf("%d were created, there are %v", s.creates, s.living())
	}
	s.thaw()
	s.reconciles("")
}

// A Machine of another owner keeps its name.
func TestCreate_NameTaken(t *testing.T) {
	foreign := machineOf("web-00001", loose, relabel)
	s := newFixture(t, Options{}, setOf(1), foreign)
	s.reconciles("create Machine, create Machine, status MachineSet/web")
	if fmt.Sprint(s.living()) != "[web-00001 web-00002]" || s.metric("drover_machineset_creates_total", "ok") != 1 {
		t.Errorf("there are %v", s.living())
	}
	// One of our own that the cache knows is not the one that is missing.
	s.names = 1
	s.resize(2)
	s.reconciles("create Machine, create Machine, status MachineSet/web")
	if fmt.Sprint(s.living()) != "[web-00001 web-00002 web-00003]" {
		t.Errorf("there are %v", s.living())
	}
	// A user who takes every name does not block a worker.
	s.resize(3)
	s.names = 0
	taken := apierrors.NewAlreadyExists(schema.GroupResource{Resource: "machines"}, "x")
	s.fail = only("create", func(string) error { return taken })
	s.reconciles("create Machine, create Machine, create Machine, status MachineSet/web")
	if got := s.metric("drover_machineset_creates_total", "error"); got != 1 {
		t.Errorf("%v failures", got)
	}
}

func TestCreate_LongNames(t *testing.T) {
	set := setOf(1)
	set.Name = strings.Repeat("x", 70)
	s := newFixture(t, Options{}, set)
	if _, writes, err := s.try(set.Name); err != nil || !strings.HasPrefix(writes, "create Machine, ") {
		t.Fatal(err, writes)
	}
	if got := s.living(); len(got) != 1 || got[0] != strings.Repeat("x", 58)+"00001" {
		t.Errorf("%v", got)
	}
}

func TestCreate_GeneratedNames(t *testing.T) {
	s := newFixture(t, Options{}, setOf(0))
	r := NewReconciler(s.client, s.client, nil, s.client, s.events, s.metrics, Options{})
	if one, other := r.options.Suffix(), r.options.Suffix(); len(one) != suffixLength || one == other {
		t.Errorf("%s %s", one, other)
	}
	if r.options.Parallel != DefaultParallel || r.clock == nil {
		t.Error("no defaults")
	}
}
