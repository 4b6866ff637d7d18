package browser

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// chromium is a tab of Chromium.
type chromium struct {
	ctx  context.Context
	lock sync.Mutex
	said []string
}

func TestChromiumPlayground(t *testing.T) { checkAll(t, "chromium", startChromium(t)) }

// startChromium starts Chromium, with variables of the environment, until the test ends, and returns what
// opens a tab.
func startChromium(t *testing.T, env ...string) func(t *testing.T) tab {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(find(t, "chromium", "chromium-browser", "google-chrome")), chromedp.NoSandbox, chromedp.Env(env...))
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	browser, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	must(t, chromedp.Do(browser)) // starts it
	return func(t *testing.T) tab {
		ctx, cancel := chromedp.NewContext(browser)
		t.Cleanup(cancel)
		c := &chromium{ctx: ctx}
		messages := chromedp.Console(ctx)
		go func() {
			for m, err := range messages {
				if err != nil {
					return
				}
				c.lock.Lock()
				c.said = append(c.said, m.String())
				c.lock.Unlock()
			}
		}()
		return c
	}
}

func (c *chromium) open(address string) error {
	return chromedp.Do(c.ctx, chromedp.Navigate(address))
}

func (c *chromium) eval(expression string, into any) error {
	raw, err := chromedp.Run(c.ctx, chromedp.Evaluate[[]byte](expression, chromedp.EvalAwaitPromise))
	if err != nil || into == nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

func (c *chromium) resize(width, height int, dark bool) error {
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	if _, err := chromedp.Call(c.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}); err != nil {
		return err
	}
	return chromedp.Do(c.ctx, chromedp.EmulateViewport(int64(width), int64(height)))
}

func (c *chromium) screenshot() ([]byte, error) {
	return chromedp.Run(c.ctx, chromedp.FullScreenshot(100))
}

func (c *chromium) console() []string {
	c.lock.Lock()
	defer c.lock.Unlock()
	return append([]string{}, c.said...)
}
