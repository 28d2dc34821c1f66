package plan

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-io/drover/internal/status"
)

// LabelPrefix is the prefix of the labels that keep a node in its paused MachineConfigPool, one for each rule.
const LabelPrefix = "mutexrule.openshift-optional.skrzypek.io/"

// LabelKey returns the key of a rule's label on nodes. It fails for a name and a namespace that are too long together: the API server would reject
// the label in the middle of a run.
func LabelKey(rule types.NamespacedName) (string, error) {
	key := LabelPrefix + rule.Name + "." + rule.Namespace
	if faults := validation.IsQualifiedName(key); len(faults) > 0 {
		return "", fmt.Errorf("MutexRule %s: its name and namespace make the label %s: %s", rule, key, status.Faults(faults))
	}
	return key, nil
}

// JobKind is which of the two Jobs of a rule a Job is.
type JobKind string

// The kinds of Jobs.
const (
	// BeforeUpgrade is the Job that must succeed before a node is released.
	BeforeUpgrade JobKind = "before"
	// AfterUpgrade is the clean-up Job.
	AfterUpgrade JobKind = "after"
)

// JobID is what a Job is for. It determines the name of the Job, so that none runs twice.
type JobID struct {
	// Run is the UID of the MutexRunConfig.
	Run types.UID
	// Version is the desired version.
	Version string
	// Node is the UID of the Node: another one may get the same name.
	Node types.UID
	// Rule is the MutexRule.
	Rule types.NamespacedName
	// Kind is which of its Jobs.
	Kind JobKind
	// Attempt counts the retries, from 0.
	Attempt int
}

// The name of a Job is also the value of its pods' label job-name, which limits its length.
const (
	hashLength = 10
	stemLength = validation.LabelValueMaxLength - hashLength - 1
)

var lowerCase = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// JobName returns the name of a Job: the beginning of the rule's jobName, and a hash of the JobID.
func JobName(prefix string, id JobID) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{
		string(id.Run), id.Version, string(id.Node), id.Rule.String(), string(id.Kind), strconv.Itoa(id.Attempt),
	}, "\x00")))
	stem := strings.TrimRight(prefix[:min(len(prefix), stemLength)], "-.")
	return stem + "-" + lowerCase.EncodeToString(sum[:])[:hashLength]
}

func keyOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}
