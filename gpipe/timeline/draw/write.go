package draw

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"gpipebench/gpipe/timeline"
)

// Endings lists the endings of file names that Write knows. A name without an ending is a
// file of the first kind.
var Endings = []string{".json", ".svg", ".txt"}

// Write writes a step's timeline in the format that a file's name asks for: Chrome trace
// JSON, a picture, or text. It refuses names with other endings.
func Write(w io.Writer, name string, tl *timeline.Timeline) error {
	switch strings.ToLower(filepath.Ext(name)) {
	case "", ".json":
		return WriteChrome(w, tl, nil)
	case ".svg":
		micro := 0
		for e := range tl.OnDevices() {
			micro = max(micro, e.Micro+1)
		}
		return WriteSVG(w, Drawing{Caption: fmt.Sprintf("K = %d, M = %d", tl.Stages(), micro), Timeline: tl})
	case ".txt":
		return WriteText(w, tl, 120)
	}
	return fmt.Errorf("a timeline in %q: want a name that ends in %s", filepath.Base(name), strings.Join(Endings, ", "))
}
