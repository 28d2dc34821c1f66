package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/drover-io/drover/test/bench/internal/bench"
)

// sample is what one round of a form took. Millis are of processor time, and they and the bytes are for one write.
type sample struct {
	PerSecond    float64 `json:"writesPerSecond"`
	Ratio        float64 `json:"ratio"`
	ServerMillis float64 `json:"serverMillis"`
	EtcdMillis   float64 `json:"etcdMillis"`
	BytesOut     float64 `json:"bytesOut"`
	BytesIn      float64 `json:"bytesIn"`
}

// result is what was measured of a form.
type result struct {
	Kind    string   `json:"kind"`
	Form    string   `json:"form"`
	Samples []sample `json:"samples,omitempty"`
	// Refused is why there are none.
	Refused string `json:"refused,omitempty"`
}

// report is everything that was measured.
type report struct {
	Go      string    `json:"go"`
	Cores   int       `json:"cores"`
	Objects int       `json:"objects"`
	Writers int       `json:"writers"`
	Results []*result `json:"results"`
}

func (r *report) of(f *form) *result {
	for _, known := range r.Results {
		if known.Kind == f.Kind && known.Form == f.Name {
			return known
		}
	}
	r.Results = append(r.Results, &result{Kind: f.Kind, Form: f.Name})
	return r.Results[len(r.Results)-1]
}

func (r *report) add(f *form, one sample) {
	known := r.of(f)
	known.Samples = append(known.Samples, one)
}

func (r *report) refuse(f *form, err error) { r.of(f).Refused = err.Error() }

// median returns the value in the middle.
func median(samples []sample, value func(*sample) float64) float64 {
	values := make([]float64, len(samples))
	for i := range samples {
		values[i] = value(&samples[i])
	}
	slices.SortFunc(values, cmp.Compare)
	return values[len(values)/2]
}

// table shows the forms of a kind: medians of the rounds, and the slowest and the fastest one beside the first form of the same round.
func (r *report) table(kind string) string {
	rows := [][]string{{"", "writes/s", "of the first", "worst", "best", "API server", "etcd", "bytes sent", "received"}}
	for _, one := range r.Results {
		switch {
		case one.Kind != kind:
			continue
		case one.Refused != "":
			rows = append(rows, []string{one.Form, one.Refused, "", "", "", "", "", "", ""})
			continue
		}
		ratios := slices.Clone(one.Samples)
		slices.SortFunc(ratios, func(a, b sample) int { return cmp.Compare(a.Ratio, b.Ratio) })
		of := func(format string, value func(*sample) float64) string {
			return fmt.Sprintf(format, median(one.Samples, value))
		}
		rows = append(rows, []string{
			one.Form, of("%.0f", func(s *sample) float64 { return s.PerSecond }), of("%.2f", func(s *sample) float64 { return s.Ratio }),
			fmt.Sprintf("%.2f", ratios[0].Ratio), fmt.Sprintf("%.2f", ratios[len(ratios)-1].Ratio),
			of("%.2f ms", func(s *sample) float64 { return s.ServerMillis }), of("%.2f ms", func(s *sample) float64 { return s.EtcdMillis }),
			of("%.0f", func(s *sample) float64 { return s.BytesOut }), of("%.0f", func(s *sample) float64 { return s.BytesIn }),
		})
	}
	return fmt.Sprintf("\n%s, %d of them, %d writers\n\n%s", kind, r.Objects, r.Writers, bench.Table(rows))
}
