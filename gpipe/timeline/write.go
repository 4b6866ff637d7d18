package timeline

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// Write writes a step's timeline in the format that a file's name asks for: a picture
// if it ends in .svg, text if it ends in .txt, and otherwise Chrome trace JSON.
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
