package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"gpipebench/gpipe/timeline"
	"gpipebench/internal/files"
)

// writeTimeline writes a step's timeline: as a picture if the file's name ends in
// .svg, as text if it ends in .txt, and else as Chrome trace JSON.
func writeTimeline(name string, tl *timeline.Timeline) error {
	return files.Write(name, func(w io.Writer) error {
		switch strings.ToLower(filepath.Ext(name)) {
		case ".svg":
			return timeline.WriteSVG(w, timeline.Drawing{Caption: caption(tl), Timeline: tl})
		case ".txt":
			return timeline.WriteText(w, tl, 120)
		}
		return timeline.WriteChrome(w, tl, nil)
	})
}

// caption is what can be said about a step from its events.
func caption(tl *timeline.Timeline) string {
	micro := 0
	for _, e := range tl.Events {
		micro = max(micro, e.Micro+1)
	}
	return fmt.Sprintf("K = %d, M = %d", tl.Devices, micro)
}
