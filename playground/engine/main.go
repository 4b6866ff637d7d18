//go:build js && wasm

// Command engine is the playground's engine, in a worker of the page: it answers the messages
// {id, call, of} of the page with messages {id, kind, of}, one call after the other.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"syscall/js"

	"gpipebench/playground"
)

// answer makes the messages of one call.
type answer func(kind string, of any)

// calls are what the page may ask for; each has settings of its own.
var calls = map[string]func(of []byte, say answer) error{
	"plan": func(of []byte, say answer) error {
		s, err := read[playground.Settings](of)
		if err != nil {
			return err
		}
		planned, err := playground.Plan(s)
		if err == nil {
			say("planned", planned)
		}
		return err
	},
	"train": func(of []byte, say answer) error {
		s, err := read[struct {
			playground.Settings
			Steps int `json:"steps"` // 0: all
		}](of)
		if err != nil {
			return err
		}
		planned, err := playground.Plan(s.Settings)
		if err != nil {
			return err
		}
		say("planned", planned)
		trained, err := playground.Run(context.Background(), s.Settings, s.Steps, func(step playground.Step) { say("step", step) })
		if err == nil {
			say("trained", trained)
		}
		return err
	},
	"search": func(of []byte, say answer) error {
		bytes, err := read[int64](of)
		for i := 0; i < len(playground.Ways) && err == nil; i++ {
			var largest playground.Largest
			if largest, err = searching.Search(playground.Ways[i], bytes); err == nil {
				say("largest", largest)
			}
		}
		return err
	},
}

var searching playground.Searching

func read[T any](of []byte) (v T, err error) {
	err = json.Unmarshal(of, &v)
	return v, err
}

func main() {
	self, text := js.Global(), js.Global().Get("JSON")
	asked := make(chan js.Value, 16)
	self.Set("onmessage", js.FuncOf(func(_ js.Value, args []js.Value) any {
		asked <- args[0].Get("data")
		return nil
	}))
	post := func(id js.Value, kind string, of any) {
		raw, err := json.Marshal(of)
		if err != nil {
			kind, raw = "failed", []byte(`"a message that cannot be written"`)
		}
		self.Call("postMessage", map[string]any{"id": id, "kind": kind, "of": text.Call("parse", string(raw))})
	}
	post(js.Null(), "ready", nil)
	for m := range asked {
		id, call := m.Get("id"), m.Get("call").String()
		err := fmt.Errorf("unknown call %q", call)
		if f, ok := calls[call]; ok {
			err = f([]byte(text.Call("stringify", m.Get("of")).String()), func(kind string, of any) { post(id, kind, of) })
		}
		if err != nil {
			post(id, "failed", err.Error())
		} else {
			post(id, "done", nil)
		}
	}
}
