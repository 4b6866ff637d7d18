package machine

import (
	"bytes"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	"gpipebench/internal/files"
)

// Meter measures how busy other processes keep this machine.
type Meter struct {
	began    time.Time
	all, own float64 // seconds of processor time before
}

// StartMeter starts a meter.
func StartMeter() Meter { return Meter{time.Now(), machineCPU(), ProcessorSeconds()} }

// Others returns how many cores other processes, and other guests of the same host,
// took on average since the start; -1 if unknown.
func (m Meter) Others() float64 {
	wall := time.Since(m.began).Seconds()
	all := machineCPU()
	if m.all < 0 || all < 0 || m.own < 0 || wall <= 0 {
		return -1
	}
	const grain = 0.02 // that both clocks may be off
	return max(0, (all-m.all-(ProcessorSeconds()-m.own)-grain)/wall)
}

// Crowded reports whether others left fewer cores than were needed. A tenth of a core
// is always taken.
func Crowded(others float64, needed, cores int) bool { return others > float64(cores-needed)+0.1 }

// LoadAverage returns the system's load average of the last minute, -1 if unknown.
func LoadAverage() float64 {
	load := -1.0
	if text, err := files.Read("/proc/loadavg", procKind); err == nil {
		_, _ = fmt.Sscan(string(text), &load)
	}
	return load
}

// machineCPU returns the processor time that was spent on this machine, or stolen from
// it, in seconds; -1 if unknown.
func machineCPU() float64 {
	if runtime.GOOS != "linux" {
		return -1
	}
	stat, err := files.Read("/proc/stat", procKind)
	if err != nil {
		return -1
	}
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	return parseCPULine(string(line))
}

// parseCPULine reads the first line of /proc/stat: user, nice, system, idle,
// iowait, irq, softirq and steal in hundredths of a second (proc(5)).
func parseCPULine(line string) float64 {
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return -1
	}
	var sum float64
	for i, f := range fields[1:9] {
		n, err := strconv.ParseFloat(f, 64)
		if err != nil {
			return -1
		}
		if i != 3 && i != 4 { // idle and waiting
			sum += n
		}
	}
	return sum / 100
}
