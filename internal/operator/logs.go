package operator

import (
	"io"
	"math"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/drover-io/drover/api/config/v1alpha1"
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
	verbosity := min(*settings.Verbosity, math.MaxInt8)
	level := zap.NewAtomicLevelAt(zapcore.Level(-verbosity)) //nolint:gosec // the line above bounds it
	core := zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(out)), level)
	return zapr.NewLogger(zap.New(core))
}
