// Package schedulepage writes a page of HTML on which schedules are drawn while their
// sizes, times and a limit of memory are moved.
package schedulepage

import (
	"embed"
	"encoding/json"
	"io"
	"strings"

	"gpipebench/gpipe/schedule"
)

var (
	//go:embed page.html
	page string
	// Files are the page's parts, which other pages may have, too: schedules.js generates
	// schedules and runs them, pictures.js draws, explorer.js is the page's sliders and pictures.
	//
	//go:embed schedules.js pictures.js explorer.js schedules.css
	Files embed.FS
)

// Given is what the page shows when it is opened. Times are milliseconds of a device for
// one micro-batch.
type Given struct {
	Schedule string  `json:"schedule"` // a name that the page knows, unless there are Lists
	K        int     `json:"k"`
	M        int     `json:"m"`
	V        int     `json:"v"` // chunks of a device
	F        float64 `json:"f"`
	B        float64 `json:"b"`
	W        float64 `json:"w"`
	U        float64 `json:"u"` // of an update within the lists
	Comm     float64 `json:"comm"`
	Whole    float64 `json:"whole"`   // activations of a device and micro-batch
	Weights  float64 `json:"weights"` // the part of them that stays until W is over
	Limit    float64 `json:"limit"`   // of memory; 0: none

	// Lists has the task lists of a schedule that no generator makes, with its placement.
	Lists [][]Task `json:"lists,omitempty"`
	Place []int    `json:"place,omitempty"`
}

// Task is one of the page's.
type Task struct {
	Kind  string `json:"kind"`
	Micro int    `json:"micro"`
	Chunk int    `json:"chunk"`
}

// Tasks are lists as the page has them, without R.
func Tasks(lists [][]schedule.Task) [][]Task {
	all := make([][]Task, len(lists))
	for d, list := range lists {
		all[d] = []Task{}
		for _, t := range list {
			if t.Kind != schedule.Recompute {
				all[d] = append(all[d], Task{t.Kind.String(), t.Micro, t.Chunk})
			}
		}
	}
	return all
}

// Write writes the page: one file, which asks for no other.
func Write(w io.Writer, g Given) error {
	text, err := json.Marshal(g) // without characters that end a script
	if err != nil {
		return err
	}
	parts := []string{"/*given*/", string(text)}
	for _, name := range []string{"schedules.js", "pictures.js", "explorer.js", "schedules.css"} {
		part, err := Files.ReadFile(name)
		if err != nil {
			return err
		}
		parts = append(parts, "/*"+name+"*/", string(part))
	}
	_, err = strings.NewReplacer(parts...).WriteString(w, page)
	return err
}
