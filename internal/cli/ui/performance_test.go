package ui

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/drover-io/drover/test/browser"
)

// frames counts frames for so many milliseconds while something happens in each.
const frames = `(milliseconds, each) => new Promise((done) => {
	const scroller = document.querySelector(".grid");
	const begun = performance.now();
	let frames = 0, longest = 0, before = begun;
	const next = (now) => {
		if (now - begun >= milliseconds) {
			done({ Frames: frames / (now - begun) * 1000, Longest: longest });
			return;
		}
		longest = Math.max(longest, now - before);
		before = now;
		frames++;
		each(scroller, frames);
		requestAnimationFrame(next);
	};
	requestAnimationFrame(next);
})`

// TestPerformance measures the page in Chromium: DROVER_UI_BENCH=5000,20000 are the numbers of nodes, of which 100 change each second.
// `make bench-ui` runs it.
func TestPerformance(t *testing.T) {
	sizes := os.Getenv("DROVER_UI_BENCH")
	if sizes == "" {
		t.Skip("DROVER_UI_BENCH is not set")
	}
	chromium := browser.Start(t)
	for _, text := range strings.Split(sizes, ",") {
		count, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(text, func(t *testing.T) { measure(t, chromium, count) })
	}
}

func measure(t *testing.T, chromium *browser.Browser, count int) {
	s := serve(t, newFleet(t, count, time.Now()))
	s.warm(t)
	page := chromium.Open(t, s.at(""), browser.Options{})
	page.Until(`performance.getEntriesByName("drover-fleet").length > 0`)
	var paint struct{ Contentful, Fleet float64 }
	page.Eval(`({
		Contentful: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0,
		Fleet: performance.getEntriesByName("drover-fleet")[0].startTime,
	})`, &paint)
	t.Logf("%d nodes: first contentful paint after %.0f ms, all cells after %.0f ms, %d KB sent",
		count, paint.Contentful, paint.Fleet, s.sent.Load()>>10)

	go churn(t.Context(), t, s.client, count, 100)
	before := s.sent.Load()
	for name, each := range map[string]string{
		"resting":   "() => {}",
		"scrolling": "(scroller, frame) => { scroller.scrollTop = frame * 24 % (scroller.scrollHeight - scroller.clientHeight); }",
	} {
		var rate struct{ Frames, Longest float64 }
		busy := page.Usage().Processor
		page.Eval("("+frames+")(5000, "+each+")", &rate)
		busy = (page.Usage().Processor - busy) / time.Duration(5*max(rate.Frames, 1))
		t.Logf("%d nodes, 100 changes a second, %s: %.1f frames a second, the longest took %.0f ms; processors worked %.1f ms for each",
			count, name, rate.Frames, rate.Longest, busy.Seconds()*1000)
	}
	t.Logf("%d nodes: %d KB sent in 10 s of 100 changes a second", count, (s.sent.Load()-before)>>10)
	page.CollectGarbage()
	var heap struct{ JS float64 }
	page.Eval("({ JS: performance.memory.usedJSHeapSize })", &heap)
	t.Logf("%d nodes: the page has %.1f MB of JavaScript objects; its process has %d MB", count, heap.JS/(1<<20), page.Usage().Memory>>20)
}
