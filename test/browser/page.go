package browser

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/drover-io/drover/test/eventually"
)

// patience is how long a busy machine may take for a request, or until a condition of a page holds.
const patience = 90 * time.Second

// object is the parameters of a request.
type object map[string]any

// Page is a tab, as one test sees it. Its methods fail the test when Chromium answers with an error.
type Page struct {
	testing.TB

	browser *Browser
	session string
	*record
}

// record is what has happened in a tab.
type record struct {
	mu sync.Mutex
	// problems are errors that the page has thrown or logged.
	problems []string
	loads    int
}

// Options are what a page is shown with. The zero value is light, 1440 by 900 pixels.
type Options struct {
	Width, Height int
	Dark          bool
	// Before is a script that runs before those of the page.
	Before string
}

// Open opens an address in a tab of a profile of its own, so pages share no storage. It fails the test if the page logs an error until the test ends.
func (b *Browser) Open(t testing.TB, address string, options Options) *Page {
	t.Helper()
	p := b.newPage(t)
	p.Size(max(options.Width, 0), options.Height)
	scheme := "light"
	if options.Dark {
		scheme = "dark"
	}
	p.Call("Emulation.setEmulatedMedia", object{"features": []object{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	if options.Before != "" {
		p.Call("Page.addScriptToEvaluateOnNewDocument", object{"source": options.Before}, nil)
	}
	p.Go(address)
	return p
}

func (b *Browser) newPage(t testing.TB) *Page {
	t.Helper()
	p := &Page{TB: t, browser: b, record: &record{}}
	var profile struct {
		ID string `json:"browserContextId"`
	}
	p.Call("Target.createBrowserContext", object{}, &profile)
	var target struct {
		ID string `json:"targetId"`
	}
	p.Call("Target.createTarget", object{"url": "about:blank", "browserContextId": profile.ID}, &target)
	var session struct {
		ID string `json:"sessionId"`
	}
	p.Call("Target.attachToTarget", object{"targetId": target.ID, "flatten": true}, &session)
	p.session = session.ID
	b.mu.Lock()
	b.pages[session.ID] = p.record
	b.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		p.Call(domain+".enable", object{}, nil)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := b.call(ctx, "", "Target.disposeBrowserContext", object{"browserContextId": profile.ID}, nil); err != nil {
			t.Error(err)
		}
		for _, problem := range p.Problems() {
			t.Errorf("the page has logged: %s", problem)
		}
	})
	return p
}

// With returns the page as another test sees it, such as a subtest.
func (p *Page) With(t testing.TB) *Page {
	return &Page{TB: t, browser: p.browser, session: p.session, record: p.record}
}

// take records what a test must know of an event.
func (r *record) take(m message) {
	var event struct {
		Entry struct {
			Level, Text, URL string
		} `json:"entry"`
		Details struct {
			Text      string                       `json:"text"`
			Exception struct{ Description string } `json:"exception"`
		} `json:"exceptionDetails"`
	}
	if json.Unmarshal(m.Params, &event) != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case m.Method == "Page.loadEventFired":
		r.loads++
	case m.Method == "Runtime.exceptionThrown":
		r.problems = append(r.problems, event.Details.Text+" "+event.Details.Exception.Description)
	case m.Method == "Log.entryAdded" && event.Entry.Level == "error":
		r.problems = append(r.problems, event.Entry.Text+" "+event.Entry.URL)
	}
}

// Problems returns the errors that the page has thrown or logged since the last call.
func (r *record) Problems() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	problems := r.problems
	r.problems = nil
	return problems
}

// Call makes a request of the DevTools protocol.
func (p *Page) Call(method string, params, result any) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	defer cancel()
	if err := p.browser.call(ctx, p.session, method, params, result); err != nil {
		p.Fatal(err)
	}
}

// Go goes to an address and waits until the page has loaded.
func (p *Page) Go(address string) {
	p.Helper()
	before := p.loaded()
	var answer struct {
		Error  string `json:"errorText"`
		Loader string `json:"loaderId"`
	}
	p.Call("Page.navigate", object{"url": address}, &answer)
	if answer.Error != "" {
		p.Fatalf("%s: %s", address, answer.Error)
	}
	if answer.Loader == "" {
		// Only what is behind the # has changed.
		return
	}
	p.wait("loading "+address, func() error {
		if p.loaded() == before {
			return errors.New("the page has not loaded")
		}
		return nil
	})
}

func (r *record) loaded() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.loads
}

func (p *Page) wait(what string, condition func() error) {
	p.Helper()
	if err := eventually.Until(p.Context(), patience, 20*time.Millisecond, condition); err != nil {
		p.Fatalf("%s: %v", what, err)
	}
}

// Eval evaluates an expression in the page, waits for it if it is a promise, and stores its value.
func (p *Page) Eval(expression string, into any) {
	p.Helper()
	if err := p.eval(expression, into); err != nil {
		p.Fatalf("%s: %v", expression, err)
	}
}

func (p *Page) eval(expression string, into any) error {
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	defer cancel()
	var answer struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception *struct {
			Text      string `json:"text"`
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	params := object{"expression": expression, "returnByValue": true, "awaitPromise": true, "userGesture": true}
	if err := p.browser.call(ctx, p.session, "Runtime.evaluate", params, &answer); err != nil {
		return err
	}
	if answer.Exception != nil {
		return fmt.Errorf("%s %s", answer.Exception.Text, answer.Exception.Exception.Description)
	}
	if into == nil {
		return nil
	}
	if answer.Result.Value == nil {
		return errors.New("the page has no value")
	}
	return json.Unmarshal(answer.Result.Value, into)
}

// Until waits until an expression is true in the page.
func (p *Page) Until(expression string) {
	p.Helper()
	p.wait(expression, func() error {
		var holds bool
		if err := p.eval("Boolean("+expression+")", &holds); err != nil {
			return err
		}
		if !holds {
			return fmt.Errorf("this is not so; the page shows: %s", p.Text())
		}
		return nil
	})
}

// Text returns the text of the page.
func (p *Page) Text() string {
	p.Helper()
	var text string
	p.Eval("document.body.innerText", &text)
	return text
}

// UntilText waits until the page shows a text.
func (p *Page) UntilText(text string) {
	p.Helper()
	p.Until(fmt.Sprintf("document.body.innerText.includes(%s)", quote(text)))
}

// quote returns a string as JavaScript.
func quote(text string) string {
	// A string is always JSON.
	content, _ := json.Marshal(text)
	return string(content)
}

// Click clicks the middle of the first element of a selector, as a mouse does.
func (p *Page) Click(selector string) {
	p.Helper()
	p.Until(fmt.Sprintf("document.querySelector(%s)", quote(selector)))
	var at struct{ X, Y float64 }
	p.Eval(fmt.Sprintf(`(() => {
		const element = document.querySelector(%s);
		element.scrollIntoView({ block: "nearest" });
		const box = element.getBoundingClientRect();
		return { X: box.x + box.width / 2, Y: box.y + box.height / 2 };
	})()`, quote(selector)), &at)
	p.ClickAt(at.X, at.Y)
}

// ClickAt clicks a place of the window.
func (p *Page) ClickAt(x, y float64) {
	p.Helper()
	for _, kind := range []string{"mouseMoved", "mousePressed", "mouseReleased"} {
		p.Call("Input.dispatchMouseEvent", object{"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1}, nil)
	}
}

// keys are the keys that have no character, with their codes.
var keys = map[string]int{
	"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40,
}

// Press presses keys, one after another: their names, as KeyboardEvent has them, or characters.
func (p *Page) Press(names ...string) {
	p.Helper()
	for _, name := range names {
		down := object{"type": "keyDown", "key": name, "windowsVirtualKeyCode": keys[name]}
		switch {
		case name == "Enter":
			down["text"] = "\r"
		case len(name) == 1:
			down["text"] = name
		}
		p.Call("Input.dispatchKeyEvent", down, nil)
		p.Call("Input.dispatchKeyEvent", object{"type": "keyUp", "key": name, "windowsVirtualKeyCode": keys[name]}, nil)
	}
}

// Insert writes a text into the element that has the focus.
func (p *Page) Insert(text string) {
	p.Helper()
	p.Call("Input.insertText", object{"text": text}, nil)
}

// Size changes the size of the window; zero is 1440 by 900 pixels.
func (p *Page) Size(width, height int) {
	p.Helper()
	if width == 0 {
		width, height = 1440, 900
	}
	p.Call("Emulation.setDeviceMetricsOverride", object{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
}

// Picture writes a picture of the window.
func (p *Page) Picture(path string) {
	p.Helper()
	var answer struct{ Data string }
	p.Call("Page.captureScreenshot", object{"format": "png"}, &answer)
	content, err := base64.StdEncoding.DecodeString(answer.Data)
	if err == nil {
		err = os.WriteFile(path, content, 0o600)
	}
	if err != nil {
		p.Fatal(err)
	}
}
