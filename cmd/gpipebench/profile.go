package main

import (
	"bytes"
	"context"
	"io"
	"runtime/pprof"

	"github.com/spf13/pflag"

	"gpipebench/internal/files"
)

// cpuProfileFlag adds --cpuprofile.
func cpuProfileFlag(fs *pflag.FlagSet, to *string) {
	fs.StringVar(to, "cpuprofile", "", "file for a profile of this program's processor time, for go tool pprof")
}

// profiled returns a command that writes such a profile when it has succeeded, if a file
// is named for one; of several processes rank 0 does.
func profiled(file *string, f func(ctx context.Context, o *output) error) func(ctx context.Context, o *output) error {
	return func(ctx context.Context, o *output) error {
		if *file == "" || follows() {
			return f(ctx, o)
		}
		if err := files.CheckWritable(*file); err != nil {
			return err
		}
		var profile bytes.Buffer
		if err := pprof.StartCPUProfile(&profile); err != nil {
			return err
		}
		defer pprof.StopCPUProfile() // does nothing the second time
		if err := f(ctx, o); err != nil {
			return err
		}
		pprof.StopCPUProfile()
		return files.Write(*file, func(w io.Writer) error {
			_, err := w.Write(profile.Bytes())
			return err
		})
	}
}
