package browser

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/systeminfo"
	"github.com/chromedp/chromedp"
)

// Usage is what pages take of the computer.
type Usage struct {
	// Memory is how many bytes the processes of pages have, with their share of what others have, too.
	Memory int
	// Processor is how long processors have worked for pages and for their pictures.
	Processor time.Duration
}

// Usage returns what all pages of the browser take.
func (p *Page) Usage() Usage {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	answer, err := chromedp.CallBrowser(ctx, systeminfo.GetProcessInfo, cdp.Empty{})
	if err != nil {
		p.Fatal(err)
	}
	usage := Usage{}
	for _, process := range answer.ProcessInfo {
		if process.Type == "renderer" {
			usage.Memory += memoryOf(process.ID)
		}
		if process.Type == "renderer" || process.Type == "GPU" {
			usage.Processor += time.Duration(process.CPUTime * float64(time.Second))
		}
	}
	return usage
}

// CollectGarbage frees what the page's scripts no longer use.
func (p *Page) CollectGarbage() {
	p.Helper()
	call(p, heapprofiler.CollectGarbage, cdp.Empty{})
}

// memoryOf returns how many bytes a process has; zero if it has ended.
func memoryOf(process int64) int {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", process))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(content)) {
		var kilobytes int
		if _, err := fmt.Sscanf(line, "Pss: %d kB", &kilobytes); err == nil {
			return kilobytes << 10
		}
	}
	return 0
}
