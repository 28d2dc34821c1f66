package ui

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/drover-io/drover/test/browser"
)

// plannedManifest is the change of a NodeGroup that the picture of a plan shows.
const plannedManifest = `apiVersion: drover.dev/v1alpha1
kind: NodeGroup
metadata:
  name: database
spec:
  nodes:
    selector:
      matchLabels:
        pool: database
  metadata:
    labels:
      example.com/team: platform
      example.com/tier: database
      example.com/backup: nightly
    taints:
    - key: example.com/database
      effect: NoSchedule
`

// TestPictures takes the pictures of docs/ui.md and README.md from an invented fleet: DROVER_UI_PICTURES is the folder. `make screenshots` runs it.
func TestPictures(t *testing.T) {
	folder := os.Getenv("DROVER_UI_PICTURES")
	if folder == "" {
		t.Skip("DROVER_UI_PICTURES is not set")
	}
	count := environment(t, "UI_NODES")
	if count == 0 {
		count = 600
	}
	s := serve(t, newFleet(t, count, time.Now()))
	chromium := browser.Start(t)
	for _, picture := range []struct {
		name, query, until string
		options            browser.Options
		then               func(page *browser.Page)
	}{
		{"ui-fleet", "?selected=node-00005", ".panel", browser.Options{}, nil},
		{"ui-fleet-dark", "?group=zone", ".tile", browser.Options{Dark: true}, nil},
		{"ui-waits", "?view=waits", ".wait", browser.Options{}, nil},
		{"ui-progress", "?view=progress&type=RollOut,Replacement", ".activity", browser.Options{Width: 1440, Height: 1600}, nil},
		{"ui-node", "?view=node&node=node-00005", ".timeline", browser.Options{Width: 1440, Height: 1500}, nil},
		{"ui-plan", "?view=plan", "#manifest", browser.Options{Width: 1440, Height: 1100}, func(page *browser.Page) {
			page.Eval(`document.querySelector("#manifest").focus()`, nil)
			page.Insert(plannedManifest)
			page.Click(".drop .primary")
			page.Until(`document.querySelector(".preview, .failure")`)
		}},
		{"ui-action", "?selected=node-00006", ".panel .actions button", browser.Options{}, func(page *browser.Page) {
			page.Click(".panel .actions button")
			page.Until(`document.querySelector("dialog .outcome")`)
		}},
	} {
		page := chromium.Open(t, s.at(picture.query), picture.options)
		page.Until(`document.querySelector(".connection.is-good")`)
		page.Until(`document.querySelector("` + picture.until + `")`)
		if picture.then != nil {
			picture.then(page)
		}
		page.Picture(filepath.Join(folder, picture.name+".png"))
	}
}
