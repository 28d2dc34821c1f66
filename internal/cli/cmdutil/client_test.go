package cmdutil

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestReportWatchError(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	for _, c := range []struct {
		name           string
		ctx            context.Context
		err            error
		fails, warning bool
	}{
		{"forbidden", t.Context(), apierrors.NewForbidden(machineSets, "", errors.New("no")), true, false},
		{"credentials no longer valid", t.Context(), apierrors.NewUnauthorized("no"), true, false},
		{"CRDs removed", t.Context(), apierrors.NewGenericServerResponse(404, "get", machineSets, "", "", 0, true), true, false},
		{"API server restarts", t.Context(), fmt.Errorf("connection refused"), false, true},
		{"connection ends as usual", t.Context(), io.EOF, false, false},
		{"version expired", t.Context(), apierrors.NewResourceExpired("old"), false, false},
		{"command ends", ended, fmt.Errorf("context canceled"), false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			warnings := make(chan error, 1)
			// The second report finds the channel full and must not block.
			reportWatchError(c.ctx, c.err, cancel, warnings)
			reportWatchError(c.ctx, c.err, cancel, warnings)
			if fails := context.Cause(ctx) != nil; fails != c.fails || len(warnings) > 0 != c.warning {
				t.Errorf("fails %t, warnings %d", fails, len(warnings))
			}
		})
	}
}
