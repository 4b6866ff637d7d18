package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// buildPeer compiles a program of bench/peers, whose path it returns; remove deletes it.
func buildPeer(source string, flags ...string) (path string, remove func(), err error) {
	dir, err := os.MkdirTemp("", "peer")
	remove = func() { _ = os.RemoveAll(dir) }
	if err != nil {
		return "", remove, err
	}
	compiler := "gcc"
	if filepath.Ext(source) == ".cpp" {
		compiler = "g++"
	}
	path = filepath.Join(dir, "peer")
	args := append([]string{"-O3", "-o", path, filepath.Join("bench/peers", source)}, flags...)
	if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		return "", remove, fmt.Errorf("bench/peers/%s does not build (%v): %.200s", source, err, out)
	}
	return path, remove, nil
}

// runPeer returns what a peer's last line of output says.
func runPeer(into any, path string, args ...string) error {
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), "OPENBLAS_NUM_THREADS=1", "OMP_NUM_THREADS=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, into); err != nil {
		return fmt.Errorf("%w in %.100q", err, out)
	}
	return nil
}

// conversation is a peer that answers each request with a line of JSON.
type conversation struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func converse(path string) (*conversation, error) {
	cmd := exec.Command(path)
	cmd.Env = append(os.Environ(), "OMP_NUM_THREADS=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &conversation{cmd, in, bufio.NewReader(out)}, cmd.Start()
}

// ask sends lines and reads the answer.
func (c *conversation) ask(answer any, lines ...string) error {
	if _, err := io.WriteString(c.in, strings.Join(lines, "\n")+"\n"); err != nil {
		return err
	}
	line, err := c.out.ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, answer)
}

// end has the peer end.
func (c *conversation) end() error {
	_ = c.in.Close()
	return c.cmd.Wait()
}
