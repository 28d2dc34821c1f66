package pace

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// start is the time at which tests begin.
var start = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func named(name string) types.NamespacedName { return types.NamespacedName{Name: name} }
