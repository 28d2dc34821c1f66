package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/drover-io/drover/test/eventually"
)

// Page is a tab, as one test sees it. Its methods fail the test when Chromium answers with an error.
type Page struct {
	testing.TB
	*record

	ctx context.Context
}

// record has the errors that a page has thrown or logged.
type record struct {
	mu       sync.Mutex
	problems []string
}

// Options are what a page is shown with. The zero value is light, 1440 by 900 pixels.
type Options struct {
	Width, Height int64
	Dark          bool
}

// Open opens an address in a tab of a profile of its own, so pages share no storage. It fails the test if the page logs an error until the test ends.
func (b *Browser) Open(t testing.TB, address string, options Options) *Page {
	t.Helper()
	r := &record{}
	ctx, end := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext(), chromedp.WithListener(r.take))
	t.Cleanup(func() {
		end()
		for _, problem := range r.Problems() {
			t.Errorf("the page has logged: %s", problem)
		}
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("opening a tab: %v", err)
	}
	if options.Width == 0 {
		options.Width, options.Height = 1440, 900
	}
	scheme := "light"
	if options.Dark {
		scheme = "dark"
	}
	p := &Page{TB: t, record: r, ctx: ctx}
	p.do(chromedp.EmulateViewport(options.Width, options.Height))
	features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features})
	p.Go(address)
	return p
}

// With returns the page as another test sees it, such as a subtest.
func (p *Page) With(t testing.TB) *Page { return &Page{TB: t, record: p.record, ctx: p.ctx} }

// take records what a test must know of an event.
func (r *record) take(event any) {
	var problem string
	switch event := event.(type) {
	case *runtime.EventExceptionThrown:
		problem = event.ExceptionDetails.Text
		if exception := event.ExceptionDetails.Exception; exception != nil {
			problem += " " + exception.Description
		}
	case *log.EventEntryAdded:
		if event.Entry.Level == log.EntryLevelError {
			problem = event.Entry.Text + " " + event.Entry.URL
		}
	}
	if problem == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problems = append(r.problems, problem)
}

// Problems returns the errors that the page has thrown or logged since the last call.
func (r *record) Problems() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	problems := r.problems
	r.problems = nil
	return problems
}

// call carries out a command of the DevTools protocol for the tab.
func call[P, R any](p *Page, command cdp.Command[P, R], params P) R {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	answer, err := chromedp.Call(ctx, command, params)
	if err != nil {
		p.Fatal(err)
	}
	return answer
}

// do runs actions.
func (p *Page) do(actions ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.Fatal(err)
	}
}

// Go goes to an address and waits until the page has loaded.
func (p *Page) Go(address string) {
	p.Helper()
	p.do(chromedp.Navigate(address))
	// A new tab first loads about:blank, and chromedp may take that for the page.
	p.Until(`location.href !== "about:blank" && document.readyState === "complete"`)
}

// Eval evaluates an expression in the page, waits for its value if that is a promise, and stores the value unless into is nil.
func (p *Page) Eval(expression string, into any) {
	p.Helper()
	if err := p.eval(expression, into); err != nil {
		p.Fatalf("%s: %v", expression, err)
	}
}

func (p *Page) eval(expression string, into any) error {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[[]byte](expression, chromedp.EvalAwaitPromise))
	if err != nil || into == nil {
		return err
	}
	if text == nil {
		return errors.New("the page has no value")
	}
	return json.Unmarshal(text, into)
}

// Until waits until an expression is true in the page.
func (p *Page) Until(expression string) {
	p.Helper()
	err := eventually.Until(p.Context(), patience, 20*time.Millisecond, func() error {
		var holds bool
		if err := p.eval("Boolean("+expression+")", &holds); err != nil {
			return err
		}
		if !holds {
			return fmt.Errorf("this is not so; the page shows: %s", p.Text())
		}
		return nil
	})
	if err != nil {
		p.Fatalf("%s: %v", expression, err)
	}
}

// Text returns the text of the page, empty while there is none, or why the page does not answer.
func (p *Page) Text() string {
	p.Helper()
	var text string
	if err := p.eval(`document.body?.innerText ?? ""`, &text); err != nil {
		return err.Error()
	}
	return text
}

// UntilText waits until the page shows a text.
func (p *Page) UntilText(text string) {
	p.Helper()
	p.Until(fmt.Sprintf("document.body?.innerText.includes(%s)", quote(text)))
}

// quote returns a string as JavaScript.
func quote(text string) string {
	// A string is always JSON.
	content, _ := json.Marshal(text)
	return string(content)
}

// Click clicks the middle of the first element of a selector, as a mouse does, as soon as the element is there and can be clicked. The page may move
// or replace the element meanwhile: Click tries again until the element gets the click.
func (p *Page) Click(selector string) {
	p.Helper()
	find := fmt.Sprintf(`(() => {
		const element = document.querySelector(%s);
		if (!element || element.disabled) {
			return null;
		}
		window.isClicked = false;
		element.addEventListener("click", () => { window.isClicked = true; }, { capture: true, once: true });
		element.scrollIntoView({ block: "nearest" });
		const box = element.getBoundingClientRect();
		return { X: box.x + box.width / 2, Y: box.y + box.height / 2 };
	})()`, quote(selector))
	err := eventually.Until(p.Context(), patience, 20*time.Millisecond, func() error {
		var at *struct{ X, Y float64 }
		if err := p.eval(find, &at); err != nil {
			return err
		}
		if at == nil {
			return fmt.Errorf("the element is not there, or is disabled; the page shows: %s", p.Text())
		}
		p.ClickAt(at.X, at.Y)
		isClicked := false
		if err := p.eval("window.isClicked", &isClicked); err != nil {
			return err
		}
		if !isClicked {
			return errors.New("the element has not got the click: it moves, or something covers it")
		}
		return nil
	})
	if err != nil {
		p.Fatalf("clicking %s: %v", selector, err)
	}
}

// ClickAt clicks a place of the window.
func (p *Page) ClickAt(x, y float64) {
	p.Helper()
	p.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, x, y), chromedp.MouseClickXY(x, y))
}

// Press presses keys, one after another: characters, and those of github.com/chromedp/chromedp/kb, such as kb.Enter.
func (p *Page) Press(keys string) {
	p.Helper()
	for _, key := range keys {
		for _, event := range events(key) {
			call(p, input.DispatchKeyEvent, *event)
		}
	}
}

// events returns what a keyboard sends for a key. Chromium makes the character of its first event, as of a real key, so that a page can prevent it.
func events(key rune) []*input.DispatchKeyEventParams {
	encoded := kb.Encode(key)
	if len(encoded) == 2 {
		return encoded
	}
	down, char, up := encoded[0], encoded[1], encoded[2]
	down.Text, down.UnmodifiedText = char.Text, char.UnmodifiedText
	return []*input.DispatchKeyEventParams{down, up}
}

// Insert writes a text into the element that has the focus.
func (p *Page) Insert(text string) {
	p.Helper()
	call(p, input.InsertText, input.InsertTextParams{Text: text})
}

// Picture writes a picture of the window.
func (p *Page) Picture(path string) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	content, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(path, content, 0o600)
	}
	if err != nil {
		p.Fatal(err)
	}
}
