package machine

import (
	"strconv"
	"strings"

	"gpipebench/internal/files"
)

func LoadAverage() float64 {
	text, err := files.Read("/proc/loadavg", procKind)
	if err == nil {
		if first, _, ok := strings.Cut(string(text), " "); ok {
			if v, err := strconv.ParseFloat(first, 64); err == nil {
				return v
			}
		}
	}
	return -1
}
