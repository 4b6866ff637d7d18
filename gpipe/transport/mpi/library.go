//go:build mpi || mpich

package mpi

/*
#include <mpi.h>

// Calls that do not wait, messages of unknown size, and errors that do not end the process.

enum { tag = 1 };

static int return_errors(void) { return MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); }

// begin initialises MPI; one_thread is whether one thread may make all calls of a process
// with several.
static int begin(int *one_thread, int *rank, int *size) {
	int level = MPI_THREAD_SINGLE, code = MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
	if (code == MPI_SUCCESS)
		code = MPI_Comm_rank(MPI_COMM_WORLD, rank);
	if (code == MPI_SUCCESS)
		code = MPI_Comm_size(MPI_COMM_WORLD, size);
	*one_thread = level >= MPI_THREAD_FUNNELED;
	return code;
}

static int begin_send(void *from, int bytes, int rank, MPI_Request *r) {
	return MPI_Isend(from, bytes, MPI_BYTE, rank, tag, MPI_COMM_WORLD, r);
}

static int probe(int *came, int *rank, int *bytes, MPI_Message *m) {
	MPI_Status s;
	int code = MPI_Improbe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, came, m, &s);
	if (code != MPI_SUCCESS || !*came)
		return code;
	*rank = s.MPI_SOURCE;
	return MPI_Get_count(&s, MPI_BYTE, bytes);
}

static int begin_receive(void *to, int bytes, MPI_Message *m, MPI_Request *r) {
	return MPI_Imrecv(to, bytes, MPI_BYTE, m, r);
}

static int test(MPI_Request *r, int *done) { return MPI_Test(r, done, MPI_STATUS_IGNORE); }

enum { longest_text = MPI_MAX_ERROR_STRING, longest_version = MPI_MAX_LIBRARY_VERSION_STRING };

static void version(char *text) {
	int length;
	if (MPI_Get_library_version(text, &length) != MPI_SUCCESS)
		text[0] = 0;
}

static void explain(int code, char *text) {
	int length;
	if (MPI_Error_string(code, text, &length) != MPI_SUCCESS)
		text[0] = 0;
}
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"
	"unsafe"
)

// Built returns nil if this program was built with MPI, and else how to do that.
func Built() error { return nil }

// library is MPI as a carrier. One thread makes all of its calls.
type library struct {
	to *connections

	mu      sync.Mutex
	queue   []outgoing
	pending int           // messages that were sent and not yet taken by MPI
	end     bool          // finish was called
	some    chan struct{} // has room for one; gets it when there is something to do
	idle    chan struct{} // closed when nothing is pending any more; nil: nobody waits
	ended   chan struct{} // closed when MPI has been finalised

	// Of the thread.
	sent     [][]*transfer // to each rank, in order, while MPI still has their memory
	arriving [][]*transfer // from each rank, in order
}

type outgoing struct {
	rank    int
	message []byte
}

// transfer is a message that MPI reads or writes.
type transfer struct {
	message []byte
	pin     runtime.Pinner // of the message
	request C.MPI_Request
}

// initialise starts the thread, and waits until MPI is initialised.
func initialise(ctx context.Context) (*connections, error) {
	l := &library{some: make(chan struct{}, 1), ended: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // it makes all calls
		err := l.start()
		if started <- err; err == nil {
			l.run()
		}
	}()
	select {
	case err := <-started:
		return l.to, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// start initialises MPI.
func (l *library) start() error {
	if err := compiledFor(); err != nil {
		return err
	}
	var oneThread, rank, size C.int
	if err := failure("MPI_Init_thread", C.begin(&oneThread, &rank, &size)); err != nil {
		return err
	}
	if oneThread == 0 {
		return fmt.Errorf("%s lets no process with several threads use it (MPI_THREAD_FUNNELED): want an MPI built with threads", Implementation)
	}
	if err := failure("MPI_Comm_set_errhandler", C.return_errors()); err != nil {
		return err
	}
	l.to = newConnections(int(rank), int(size), l)
	l.sent, l.arriving = make([][]*transfer, size), make([][]*transfer, size)
	return nil
}

// run sends and receives until the end of MPI.
func (l *library) run() {
	if err := l.work(); err != nil {
		l.to.fail(err)
		return
	}
	C.MPI_Finalize()
	close(l.ended)
}

func (l *library) send(rank int, message []byte) {
	l.mu.Lock()
	l.queue = append(l.queue, outgoing{rank, message})
	l.pending++
	l.mu.Unlock()
	l.wake()
}

func (l *library) wake() {
	select {
	case l.some <- struct{}{}:
	default:
	}
}

func (l *library) flush(ctx context.Context) error {
	l.mu.Lock()
	if l.idle == nil {
		l.idle = make(chan struct{})
	}
	idle := l.idle
	if l.pending == 0 {
		close(l.idle)
		l.idle = nil
	}
	l.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *library) finish(ctx context.Context) error {
	l.mu.Lock()
	l.end = true
	l.mu.Unlock()
	l.wake()
	select {
	case <-l.ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

const (
	// attention is how long the thread looks for messages without a pause.
	attention = 50 * time.Microsecond
	// It then sleeps, for a part of the time in which nothing has come: so a message
	// waits for a sixteenth of that at most, and a process that computes is not disturbed.
	napPart     = 16
	shortestNap = 20 * time.Microsecond
	longestNap  = time.Millisecond
)

// work sends and receives until finish is called.
func (l *library) work() error {
	nap := time.NewTimer(0)
	defer nap.Stop()
	for last := time.Now(); ; {
		queue, end := l.next()
		if end {
			return nil
		}
		for _, o := range queue {
			if err := l.begin(o); err != nil {
				return err
			}
		}
		took, err := l.take()
		if err != nil {
			return err
		}
		came, err := l.receive()
		if err != nil {
			return err
		}
		if len(queue) > 0 || took || came {
			last = time.Now()
			continue
		}
		if idle := time.Since(last); idle > attention {
			nap.Reset(min(max(idle/napPart, shortestNap), longestNap))
			select {
			case <-l.some:
			case <-nap.C:
			}
		}
	}
}

// next takes the queue, and reports whether this is the end.
func (l *library) next() ([]outgoing, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	queue := l.queue
	l.queue = nil
	return queue, l.end
}

// begin hands a message to MPI.
func (l *library) begin(o outgoing) error {
	t := &transfer{message: o.message}
	t.pin.Pin(unsafe.SliceData(t.message))
	l.sent[o.rank] = append(l.sent[o.rank], t)
	return failure("MPI_Isend", C.begin_send(unsafe.Pointer(unsafe.SliceData(t.message)), C.int(len(t.message)), C.int(o.rank), &t.request))
}

// take frees the messages that MPI has taken.
func (l *library) take() (some bool, err error) {
	n := 0
	for rank := range l.sent {
		if err := eachDone("MPI_Isend", &l.sent[rank], func([]byte) { n++ }); err != nil {
			return n > 0, err
		}
	}
	if n > 0 {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.pending -= n; l.pending == 0 && l.idle != nil {
			close(l.idle)
			l.idle = nil
		}
	}
	return n > 0, nil
}

// receive receives messages, and hands over those that are complete.
func (l *library) receive() (some bool, err error) {
	for {
		var came, rank, bytes C.int
		t := &transfer{}
		var m C.MPI_Message
		if err := failure("MPI_Improbe", C.probe(&came, &rank, &bytes, &m)); err != nil {
			return some, err
		}
		if came == 0 {
			break
		}
		some = true
		t.message = make([]byte, max(bytes, 1))[:bytes]
		t.pin.Pin(unsafe.SliceData(t.message))
		l.arriving[rank] = append(l.arriving[rank], t)
		if err := failure("MPI_Imrecv", C.begin_receive(unsafe.Pointer(unsafe.SliceData(t.message)), bytes, &m, &t.request)); err != nil {
			return some, err
		}
	}
	for rank := range l.arriving {
		if err := eachDone("MPI_Imrecv", &l.arriving[rank], func(message []byte) {
			some = true
			l.to.receive(rank, message)
		}); err != nil {
			return some, err
		}
	}
	return some, nil
}

// eachDone removes the first transfers as far as they are complete.
func eachDone(what string, all *[]*transfer, do func(message []byte)) error {
	for len(*all) > 0 {
		t := (*all)[0]
		var done C.int
		if err := failure(what, C.test(&t.request, &done)); err != nil {
			return err
		}
		if done == 0 {
			return nil
		}
		t.pin.Unpin()
		(*all)[0] = nil
		*all = (*all)[1:]
		do(t.message)
	}
	return nil
}

// compiledFor is an error if the library that this process has loaded is not the one that
// this program was compiled for, whose handles have other types.
func compiledFor() error {
	text := make([]byte, C.longest_version)
	C.version((*C.char)(unsafe.Pointer(&text[0])))
	loaded, _, _ := strings.Cut(C.GoString((*C.char)(unsafe.Pointer(&text[0]))), ",")
	if strings.HasPrefix(loaded, openMPI) == (Implementation == openMPI) {
		return nil
	}
	return fmt.Errorf("this program was built with %s, and has loaded %q: want the same", Implementation, strings.TrimSpace(loaded))
}

// openMPI is how the version of that library begins; others are relatives of MPICH.
const openMPI = "Open MPI"

// failure is the error of a call of MPI, or nil.
func failure(call string, code C.int) error {
	if code == C.MPI_SUCCESS {
		return nil
	}
	text := make([]byte, C.longest_text)
	C.explain(code, (*C.char)(unsafe.Pointer(&text[0])))
	said := C.GoString((*C.char)(unsafe.Pointer(&text[0])))
	if said == "" {
		return fmt.Errorf("%s: error %d", call, code)
	}
	return errors.New(call + ": " + said)
}
