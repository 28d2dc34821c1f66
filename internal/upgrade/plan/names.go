package plan

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// LabelPrefix begins the keys of the labels that keep a node in its paused pool, one for each rule.
const LabelPrefix = "mutexrule.openshift-optional.skrzypek.io/"

// LabelKey is the key of a rule's label on nodes. It fails for names that are too long together: the API server would refuse the label in
// the middle of a run.
func LabelKey(rule types.NamespacedName) (string, error) {
	key := LabelPrefix + rule.Name + "." + rule.Namespace
	if faults := validation.IsQualifiedName(key); len(faults) > 0 {
		return "", fmt.Errorf("MutexRule %s: its name and namespace make the label %s: %s", rule, key, strings.Join(faults, "; "))
	}
	return key, nil
}

// JobKind tells the two Jobs of a rule apart.
type JobKind string

// The kinds of Jobs.
const (
	// BeforeUpgrade is the Job that must succeed before a node is let go.
	BeforeUpgrade JobKind = "before"
	// AfterUpgrade is the clean-up Job.
	AfterUpgrade JobKind = "after"
)

// JobID is all that a Job is for. Two Jobs with the same JobID are one, so that none runs twice.
type JobID struct {
	// Run is the UID of the MutexRunConfig.
	Run types.UID
	// Version is the one that is aimed at.
	Version string
	// Node is the UID of the Node, since one of the same name may be another machine.
	Node types.UID
	// Rule is the MutexRule.
	Rule types.NamespacedName
	// Kind tells the rule's two Jobs apart.
	Kind JobKind
	// Attempt counts the repetitions, from 0.
	Attempt int
}

// A Job's name is that of its pods' label job-name, too, which may not be longer than a label's value.
const (
	hashLength = 10
	stemLength = validation.LabelValueMaxLength - hashLength - 1
)

var lowerCase = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// JobName is the name of a Job: as much of the rule's jobName as there is room for, and a hash of all that it is for.
func JobName(prefix string, id JobID) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{
		string(id.Run), id.Version, string(id.Node), id.Rule.String(), string(id.Kind), strconv.Itoa(id.Attempt),
	}, "\x00")))
	stem := strings.TrimRight(prefix[:min(len(prefix), stemLength)], "-.")
	return stem + "-" + lowerCase.EncodeToString(sum[:])[:hashLength]
}
