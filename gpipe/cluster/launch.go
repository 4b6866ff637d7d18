package cluster

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"gpipebench/gpipe/transport/sockets"
	"gpipebench/internal/failure"
	"gpipebench/internal/files"
	"gpipebench/internal/shutdown"
)

// RankCommand is the command that a launcher starts.
const RankCommand = "rank"

// Launching is what to start, and where.
type Launching struct {
	Processes  int
	Hosts      []Host        // empty: all on this machine
	TCP        bool          // on this machine: TCP over its loopback in place of Unix sockets, where processes inherit files (not on Windows)
	Limit      time.Duration // of a process's silence; 0: the default
	Executable string        // this program, at the same path on all hosts
	Args       []string      // of each process: a command and its flags
	SSH        string        // the program that starts a process on a host; "": ssh

	// Stdout and Stderr are rank 0's. Those of the others only show in errors.
	Stdout, Stderr io.Writer

	listens *os.File // the socket at which rank 0 accepts; nil: it makes one
}

// Host is a machine and how many processes it may have; 0: any number.
type Host struct {
	Name  string
	Slots int
}

// grace is how long processes may take to end by themselves after one has failed. They
// notice at once, except those that hang.
const grace = 5 * time.Second

// maxOrder bounds the line that a process is started with.
const maxOrder = 1 << 20

// interrupt is the line that interrupts a process.
const interrupt = "interrupt\n"

// Order is what a process is started with.
type Order struct {
	Environment map[string]string
	Args        []string
}

// Failed is the error of a run that failed and whose rank 0 has said why.
type Failed struct{ Status int }

func (e *Failed) Error() string { return fmt.Sprintf("rank 0 has ended with status %d", e.Status) }

// Run starts the processes and waits for all of them. When one fails, the others are given
// a short time, and then killed. When the context ends, all are interrupted, and take
// their time to end: a training may finish its step and write a snapshot. The error is a
// *Failed if rank 0 has printed one.
func (l Launching) Run(ctx context.Context) (err error) {
	defer shutdown.On(ctx)()
	places, err := l.place()
	if err != nil {
		return err
	}
	address, clean, err := l.address(places)
	if err != nil {
		return err
	}
	defer func() {
		if e := clean(); err == nil {
			err = e
		}
	}()
	secret := make([]byte, 32)
	rand.Read(secret) // never fails
	order := func(rank int) Order {
		o := Order{map[string]string{
			RankVariable: strconv.Itoa(rank), SizeVariable: strconv.Itoa(l.Processes),
			AddressVariable: address, SecretVariable: hex.EncodeToString(secret),
		}, l.Args}
		if l.Limit > 0 {
			o.Environment[TimeoutVariable] = l.Limit.String()
		}
		if rank == 0 && l.listens != nil {
			o.Environment[ListenerVariable] = "3" // the first of exec.Cmd.ExtraFiles
		}
		return o
	}
	var all []*process
	ended := make(chan *process)
	for rank, host := range places {
		p, err := l.start(ctx, rank, host, order(rank), ended)
		if err != nil {
			err = fmt.Errorf("rank %d%s does not start: %w", rank, on(host), files.Reason(err))
			for _, p := range all {
				p.kill()
			}
			for range all {
				<-ended
			}
			return err
		}
		all = append(all, p)
	}
	return l.wait(ctx, all, ended)
}

// place returns the host of each rank; "" is this machine.
func (l Launching) place() ([]string, error) {
	if l.Processes < 1 || l.Processes > sockets.MaxSize {
		return nil, failure.Usagef("%d processes: want 1 to %d", l.Processes, sockets.MaxSize)
	}
	places := make([]string, 0, l.Processes)
	if len(l.Hosts) == 0 {
		return places[:l.Processes], nil
	}
	rest, open := l.Processes, 0 // those with slots are filled; others share what is left
	for _, h := range l.Hosts {
		if rest = max(0, rest-h.Slots); h.Slots == 0 {
			open++
		}
	}
	for _, h := range l.Hosts {
		n := min(h.Slots, l.Processes-len(places))
		if h.Slots == 0 {
			n = (rest + open - 1) / open
			rest, open = rest-n, open-1
		}
		for range n {
			places = append(places, h.Name)
		}
	}
	if len(places) < l.Processes {
		return nil, failure.Usagef("%d processes on hosts with %d slots: want at most one process a slot", l.Processes, len(places))
	}
	return places, nil
}

// address returns where rank 0 is to listen, and what to call in the end.
func (l *Launching) address(places []string) (address string, clean func() error, err error) {
	nothing := func() error { return nil }
	switch {
	case len(l.Hosts) > 0:
		host := places[0][strings.LastIndexByte(places[0], '@')+1:] // without the user that ssh is to log in as
		return net.JoinHostPort(host, portOf(rand.Text())), nothing, nil
	case l.TCP: // listens already, so that nobody takes the port before rank 0 does
		own, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", nil, err
		}
		defer own.Close()
		l.listens, err = own.(*net.TCPListener).File()
		return own.Addr().String(), nothing, err
	case sockets.Nameless:
		return "unix:@gpipebench-" + rand.Text(), nothing, nil
	}
	dir, err := os.MkdirTemp("", "gpipebench-*")
	return "unix:" + filepath.Join(dir, "run"), func() error { return os.RemoveAll(dir) }, err
}

func on(host string) string {
	if host == "" {
		return ""
	}
	return " on " + host
}

// process is one that has been started.
type process struct {
	rank int
	host string
	cmd  *exec.Cmd
	said tail
	err  error // of waiting for it, once it has ended
}

// start starts a process, which is sent to ended when it has ended. It is interrupted when
// ctx ends.
func (l Launching) start(ctx context.Context, rank int, host string, order Order, ended chan<- *process) (*process, error) {
	line, err := json.Marshal(order)
	if err != nil {
		return nil, err
	}
	if len(line) >= maxOrder {
		return nil, failure.Usagef("a command line of %d bytes: want less than %d", len(line), maxOrder)
	}
	c := exec.Command(l.Executable, RankCommand)
	if host != "" {
		dir, err := os.Getwd()
		if err != nil {
			return nil, err
		}
		c = exec.Command(cmp.Or(l.SSH, "ssh"), "-o", "BatchMode=yes", host, fmt.Sprintf("cd %s && exec %s %s", Quoted(dir), Quoted(l.Executable), RankCommand))
	}
	p := &process{rank: rank, host: host, cmd: c}
	separate(c, syscall.SIGKILL)
	c.WaitDelay = time.Second
	c.Stderr = &p.said
	if rank == 0 {
		if l.listens != nil {
			c.ExtraFiles = []*os.File{l.listens}
			defer l.listens.Close() // the process has it
		}
		c.Stdout = l.Stdout
		c.Stderr = l.Stderr
		if f, ok := l.Stderr.(*os.File); host != "" || !ok || f == nil { // over ssh the launcher may have to say why
			c.Stderr = io.MultiWriter(l.Stderr, &p.said)
		}
	}
	in, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	started := make(chan error)
	go func() {
		// The process ends with the thread that has started it, see separate.
		stay()
		if err := c.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		over := make(chan struct{})
		go func() {
			_, _ = in.Write(append(line, '\n')) // an error here and below: it has ended already
			select {
			case <-ctx.Done():
				_, _ = io.WriteString(in, interrupt)
			case <-over:
			}
		}()
		if p.err = c.Wait(); errors.Is(p.err, exec.ErrWaitDelay) {
			p.err = nil // it has ended well, and what ssh leaves for later connections has its standard error
		}
		close(over)
		in.Close()
		ended <- p
	}()
	return p, <-started
}

// Quoted is a word for a shell.
func Quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

func (p *process) kill() { _ = p.cmd.Process.Kill() } // an error: it has ended

// wait waits for all processes.
func (l Launching) wait(ctx context.Context, all []*process, ended <-chan *process) error {
	var failed []*process // by themselves, in this order
	var patience <-chan time.Time
	killed := false
	for left := len(all); left > 0; {
		select {
		case p := <-ended:
			left--
			if p.err != nil && !killed {
				if failed = append(failed, p); patience == nil {
					patience = time.After(grace)
				}
			}
		case <-patience:
			killed, patience = true, nil
			for _, p := range all {
				p.kill()
			}
		}
	}
	// Rank 0 says what has happened, unless a signal has ended it. Other statuses than its own
	// come from ssh or a shell.
	switch status := all[0].cmd.ProcessState.ExitCode(); {
	case status == 1 || status == 2:
		return &Failed{status}
	case status <= 0 && ctx.Err() != nil:
		return ctx.Err()
	case len(failed) == 0:
		return nil
	}
	of := failed[0]
	for _, p := range failed { // one that was killed is the reason, before one that says why, before others
		if signaled := p.cmd.ProcessState.ExitCode() < 0; signaled || of.said.String() == "" && p.said.String() != "" {
			of = p
			if signaled {
				break
			}
		}
	}
	return fmt.Errorf("rank %d%s %s", of.rank, on(of.host), failure.Ending(of.cmd.ProcessState, of.said.String(), l.Executable))
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// tailBytes is how much a tail keeps.
const tailBytes = 1 << 16

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if more := len(t.text) - tailBytes; more > 0 {
		t.text = bytes.Clone(t.text[more:])
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

// Obey is what a process that is started with RankCommand begins with: it reads the
// order and puts its environment in place. The process gets SIGTERM when the input has
// another line, and the context ends when the input does.
func Obey(ctx context.Context, in io.Reader) (args []string, obeying context.Context, err error) {
	lines := bufio.NewReader(in)
	line, err := files.ReadLine(lines, maxOrder)
	var o Order
	if err == nil && json.Unmarshal(line, &o) != nil || err == nil && len(o.Args) == 0 {
		err = errors.New("no line with an order")
	}
	if err != nil {
		return nil, nil, failure.Usagef("no order on standard input (%v): it is launch that starts this", err)
	}
	for name, value := range o.Environment {
		if err := os.Setenv(name, value); err != nil {
			return nil, nil, err
		}
	}
	var end *os.File
	if os.Stdin, end, err = os.Pipe(); err != nil { // in is the standard input: it has no data
		return nil, nil, err
	}
	end.Close()
	obeying, stop := context.WithCancelCause(ctx)
	go func() {
		if line, _ := lines.ReadString('\n'); line == interrupt {
			if self, err := os.FindProcess(os.Getpid()); err != nil || self.Signal(syscall.SIGTERM) != nil {
				stop(context.Canceled) // no signals on this system
			}
		}
		_, _ = io.Copy(io.Discard, lines)
		stop(errors.New("the launcher is gone"))
		time.Sleep(grace)
		os.Exit(1) // if something does not stop
	}()
	return o.Args, obeying, nil
}

// ReadHosts reads a file of hosts: a line each, its name and perhaps slots=N; # begins a
// comment.
func ReadHosts(name string) ([]Host, error) {
	raw, err := files.Read(name, files.Kind{What: "a file of hosts", Bytes: 1 << 20})
	if err != nil {
		return nil, err
	}
	var hosts []Host
	number := 0
	for line := range strings.Lines(string(raw)) {
		number++
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		h := Host{Name: words[0]}
		bad := strings.HasPrefix(h.Name, "-") || len(words) > 2
		if len(words) == 2 {
			slots, ok := strings.CutPrefix(words[1], "slots=")
			n, err := strconv.Atoi(slots)
			h.Slots = n
			bad = bad || !ok || err != nil || n < 1 || n > sockets.MaxSize
		}
		if bad {
			return nil, failure.Usagef("%s:%d: %.100q: want a host, or a host and slots=N", files.Printable(name), number, strings.TrimSpace(line))
		}
		hosts = append(hosts, h)
	}
	if len(hosts) == 0 {
		return nil, failure.Usagef("%s: no hosts: want a line for each", files.Printable(name))
	}
	return hosts, nil
}
