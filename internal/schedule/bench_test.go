package schedule

import (
	"testing"
	"time"
)

// BenchmarkDecide decides with sixteen windows.
func BenchmarkDecide(b *testing.B) {
	zones := []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", ""}
	schedules := []string{"0 22 * * 1-5", "30 2 * * sat,sun", "0 1 1 * *", "*/15 3 * * *"}
	shifts := []string{"0 0 * * *", "0 8 * * *", "0 16 * * *", "30 12 * * *"}
	var typical, always, weekends, relieving []Window
	for i := range 16 {
		zone := zones[i%4]
		typical = append(typical, Window{Schedule: schedules[i/4], TimeZone: zone, Duration: 6 * time.Hour, MinRemaining: 30 * time.Minute})
		always = append(always, Window{Schedule: "* * * * *", TimeZone: zone, Duration: time.Minute})
		weekends = append(weekends, Window{Schedule: "0 22 * * 1-5", TimeZone: zone, Duration: 72 * time.Hour})
		relieving = append(relieving, Window{Schedule: shifts[i/4], TimeZone: zone, Duration: 8 * time.Hour})
	}
	for _, bench := range []struct {
		name    string
		windows []Window
		freezes []Freeze
	}{
		{"typical", typical, []Freeze{{From: testNow.AddDate(0, 5, 0), To: testNow.AddDate(0, 6, 0), Reason: "holidays"}}},
		{"always open", always, nil},
		{"open over weekends", weekends, nil},
		{"windows that relieve one another", relieving, nil},
	} {
		b.Run(bench.name+"/decide", func(b *testing.B) {
			for b.Loop() {
				if _, err := Decide(bench.windows, bench.freezes, testNow); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(bench.name+"/at", func(b *testing.B) {
			calendar, err := Parse(bench.windows, bench.freezes)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				calendar.At(testNow)
			}
		})
	}
}
