package operator

import (
	"context"
	"encoding/json"
	"io"
	"strings"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/api/config/v1alpha1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/config"
)

// NewLogger makes the process's logger.
func NewLogger(settings v1alpha1.Log, out io.Writer) logr.Logger {
	encoding := zap.NewProductionEncoderConfig()
	encoding.TimeKey, encoding.EncodeTime = "time", zapcore.RFC3339NanoTimeEncoder
	encoding.EncodeDuration = zapcore.StringDurationEncoder
	encoder := zapcore.NewJSONEncoder(encoding)
	if settings.Format == "text" {
		encoder = zapcore.NewConsoleEncoder(encoding)
	}
	verbosity := min(*settings.Verbosity, config.MaxVerbosity)
	level := zap.NewAtomicLevelAt(zapcore.Level(-verbosity)) //nolint:gosec // the line above bounds it
	core := zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(cutLines{out})), level)
	return zapr.NewLogger(zap.New(lazyFields{core}))
}

// lazyFields encodes the fields of a logger when it writes its first entry: each reconciliation has a logger with the name of its object, and most of
// them write nothing.
type lazyFields struct{ zapcore.Core }

// With returns a core with further fields.
func (l lazyFields) With(fields []zapcore.Field) zapcore.Core {
	return lazyFields{zapcore.NewLazyWith(l.Core, fields)}
}

// maxEntry is how long an entry of the log can be, in bytes. A caller of the webhook can have it log what it has refused, which may have some MiB.
const maxEntry = 16 << 10

// cutLines writes entries of a log. Of an entry that is too long, it writes the beginning. zap writes each entry in one piece.
type cutLines struct{ out io.Writer }

// Write writes an entry.
func (c cutLines) Write(entry []byte) (int, error) {
	if len(entry) <= maxEntry {
		return c.out.Write(entry)
	}
	// It is JSON in either format, for a program that reads nothing else.
	cut, err := json.Marshal(map[string]any{"msg": "an entry was too long for the log", "bytes": len(entry), "beginning": string(entry[:maxEntry/8])})
	if err == nil {
		_, err = c.out.Write(append(cut, '\n'))
	}
	return len(entry), err
}

// warnings logs the warnings of the API server, except a warning that cannot be helped: the finalizer of a NodeMaintenance has the same name as in
// node-maintenance-operator.
type warnings struct{}

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (warnings) HandleWarningHeaderWithContext(ctx context.Context, code int, _, text string) {
	const miscellaneous = 299
	if code == miscellaneous && text != "" && !strings.Contains(text, medik8s.Finalizer) {
		log.FromContext(ctx).Info("the API server warns: " + text)
	}
}
