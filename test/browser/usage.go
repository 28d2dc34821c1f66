package browser

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
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
	var answer struct {
		Processes []struct {
			ID      int     `json:"id"`
			Type    string  `json:"type"`
			CPUTime float64 `json:"cpuTime"`
		} `json:"processInfo"`
	}
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	defer cancel()
	if err := p.browser.call(ctx, "", "SystemInfo.getProcessInfo", nil, &answer); err != nil {
		p.Fatal(err)
	}
	var usage Usage
	for _, process := range answer.Processes {
		if process.Type == "renderer" {
			usage.Memory += memoryOf(process.ID)
		}
		if process.Type == "renderer" || process.Type == "GPU" {
			usage.Processor += time.Duration(process.CPUTime * float64(time.Second))
		}
	}
	return usage
}

// memoryOf returns how many bytes a process has; zero if it has ended.
func memoryOf(process int) int {
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
