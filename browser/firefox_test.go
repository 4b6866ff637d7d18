package browser

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"
)

// bidi is a session of WebDriver BiDi (W3C, https://w3c.github.io/webdriver-bidi/), whose
// commands may be made beside each other.
type bidi struct {
	conn    net.Conn
	lock    sync.Mutex
	next    int
	waiting map[int]chan answer
	said    map[string][]string // on the console, by browsing context
	closed  error
}

type answer struct {
	Result json.RawMessage
	Error  string
	What   string `json:"message"`
}

// dial opens a session at the address of a browser.
func dial(ctx context.Context, address string) (*bidi, error) {
	conn, buffered, _, err := ws.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	var from io.Reader = conn
	if buffered != nil {
		from = io.MultiReader(buffered, conn)
	}
	b := &bidi{conn: conn, waiting: map[int]chan answer{}, said: map[string][]string{}}
	go b.read(struct {
		io.Reader
		io.Writer
	}{from, conn})
	if err := b.call("session.new", map[string]any{"capabilities": map[string]any{}}, nil); err != nil {
		return nil, err
	}
	return b, b.call("session.subscribe", map[string]any{"events": []string{"log.entryAdded"}}, nil)
}

// read hands on answers and keeps what is said, until the connection ends.
func (b *bidi) read(from io.ReadWriter) {
	for {
		raw, err := wsutil.ReadServerText(from)
		if err != nil {
			b.lock.Lock()
			b.closed = err
			for _, c := range b.waiting {
				close(c)
			}
			b.waiting = map[int]chan answer{}
			b.lock.Unlock()
			return
		}
		var m struct {
			ID     *int
			Method string
			Params struct {
				Text, Level string
				Source      struct{ Context string }
			}
			answer
		}
		if err := json.Unmarshal(raw, &m); err != nil {
			continue
		}
		b.lock.Lock()
		if m.Method == "log.entryAdded" {
			b.said[m.Params.Source.Context] = append(b.said[m.Params.Source.Context], m.Params.Level+": "+m.Params.Text)
		}
		if m.ID != nil {
			if c, ok := b.waiting[*m.ID]; ok {
				c <- m.answer
				delete(b.waiting, *m.ID)
			}
		}
		b.lock.Unlock()
	}
}

// call makes a command and reads its result into a pointer; nil: nothing is read.
func (b *bidi) call(method string, params, into any) error {
	c := make(chan answer, 1)
	b.lock.Lock()
	b.next++
	id := b.next
	raw, err := json.Marshal(map[string]any{"id": id, "method": method, "params": params})
	if err == nil && b.closed != nil {
		err = b.closed
	}
	if err == nil {
		b.waiting[id] = c
		err = wsutil.WriteClientText(b.conn, raw)
	}
	b.lock.Unlock()
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	a, ok := <-c
	switch {
	case !ok:
		return fmt.Errorf("%s: the browser has gone", method)
	case a.Error != "":
		return fmt.Errorf("%s: %s: %s", method, a.Error, a.What)
	case into == nil:
		return nil
	}
	return json.Unmarshal(a.Result, into)
}

// firefox is a tab of Firefox.
type firefox struct {
	*bidi
	context string
}

func TestFirefoxPlayground(t *testing.T) {
	if os.Getenv("GPIPEBENCH_DEEP") == "" {
		t.Skip("a part of make deep")
	}
	// Not t.TempDir: the browser may still write there when it ends.
	profile, err := os.MkdirTemp("", "firefox-*")
	must(t, err)
	defer os.RemoveAll(profile)
	must(t, os.WriteFile(filepath.Join(profile, "user.js"), []byte(`user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("dom.ipc.processCount", 4);
`), 0o600))
	cmd := exec.Command(find(t, "firefox-esr", "firefox"), "--headless", "--no-remote", "--profile", profile, "--remote-debugging-port", "0")
	cmd.Env = append(os.Environ(), "HOME="+profile)
	errs, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	must(t, err)
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	at := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(errs)
		for lines.Scan() {
			if _, address, ok := strings.Cut(lines.Text(), "WebDriver BiDi listening on "); ok {
				at <- address + "/session"
			}
		}
		close(at)
	}()
	address, ok := <-at
	if !ok {
		t.Fatal("Firefox does not listen")
	}
	b, err := dial(t.Context(), address)
	must(t, err)
	defer b.conn.Close()
	checkAll(t, "firefox", func(t *testing.T) tab {
		var made struct{ Context string }
		must(t, b.call("browsingContext.create", map[string]any{"type": "tab"}, &made))
		return &firefox{b, made.Context}
	})
}

func (f *firefox) open(address string) error {
	return f.call("browsingContext.navigate", map[string]any{"context": f.context, "url": address, "wait": "complete"}, nil)
}

// eval has the value as JSON, as BiDi's own form of values is another.
func (f *firefox) eval(expression string, into any) error {
	// A script's names are seen by the next one only outside of functions.
	if into != nil {
		expression = "Promise.resolve(" + expression + ").then(v => JSON.stringify(v))"
	}
	var got struct {
		Type             string
		Result           struct{ Value json.RawMessage }
		ExceptionDetails struct{ Text string }
	}
	err := f.call("script.evaluate", map[string]any{"expression": expression, "target": map[string]any{"context": f.context}, "awaitPromise": true}, &got)
	if err == nil && got.Type != "success" {
		err = fmt.Errorf("%s", got.ExceptionDetails.Text)
	}
	if err != nil || into == nil {
		return err
	}
	var text string
	if err := json.Unmarshal(got.Result.Value, &text); err != nil {
		return err
	}
	return json.Unmarshal([]byte(text), into)
}

// resize leaves the colours as they are: they are the browser's.
func (f *firefox) resize(width, height int, dark bool) error {
	return f.call("browsingContext.setViewport", map[string]any{"context": f.context, "viewport": map[string]any{"width": width, "height": height}}, nil)
}

func (f *firefox) screenshot() ([]byte, error) {
	var got struct{ Data string }
	if err := f.call("browsingContext.captureScreenshot", map[string]any{"context": f.context, "origin": "document"}, &got); err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(got.Data)
}

func (f *firefox) console() []string {
	f.lock.Lock()
	defer f.lock.Unlock()
	return append([]string{}, f.said[f.context]...)
}
