package timeline

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// Write writes a step's timeline as a file of that name has it: as a picture if the
// name ends in .svg, as text if it ends in .txt, and otherwise as Chrome trace JSON.
func Write(w io.Writer, name string, tl *Timeline) error {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".svg":
		micro := 0
		for _, e := range tl.Events {
			micro = max(micro, e.Micro+1)
		}
		return WriteSVG(w, Drawing{Caption: fmt.Sprintf("K = %d, M = %d", tl.Devices, micro), Timeline: tl})
	case ".txt":
		return WriteText(w, tl, 120)
	}
	return WriteChrome(w, tl, nil)
}
