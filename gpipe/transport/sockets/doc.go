// Package sockets is the transport between processes, over TCP, on one machine over
// Unix sockets, or over the connections of another [Network].
//
// Rank 0 listens at an address that all processes know. The others come there, the
// ranks compare what must be the same (Config.Facts), and each gets to know the
// others' addresses. Every two processes then have one connection for messages, signs
// of life and the news that a process has failed; and one for each line of tensors
// (see [transport.Route.Line]), made when it is first used. The kernel's buffers of
// that connection are all that a sender can be ahead of its receiver, so a slow
// receiver delays its own line and no other, and tensors go from memory to memory
// without another copy in this process.
//
// Messages and tensors have one framing (frame.go): a header and a body, each with its CRC-32C,
// by blocks of 1 MiB, beside the write and the read. The body of a message is JSON, and after it what a
// place gathers; the largest has 2^34 bytes, and memory is taken for bytes that have come, not for those
// that a length announces. A Send that is given up in the middle is made up for with zeros and a mark,
// and a message of a session that has ended is passed over by its number; so a line is one connection for
// the whole run, and one that ends is lost.
//
// A connection, as its listener sees it:
//
//	accepted --opening within 1 s--> opened --proof within 5 s--> proved --> taken: frames follow
//	    |                              |                            |
//	    +--- late, or no place --------+---> dropped                +--> refused, with the reason
//
// Both sides prove that they know the run's secret, which is never sent (HMAC-SHA-256 of
// two fresh random numbers). When too many are proving themselves, the oldest is dropped
// of the host that has the most, and a caller that was dropped calls again. What is taken
// is never replaced: a second connection of a rank or a line is refused. What follows is
// summed (CRC-32C, on every frame's header and body), and neither encrypted nor signed: use
// a network that others cannot change.
//
// A line, as its receiver sees it:
//
//	silent for a limit --asked--> asked --sent, but nothing comes for four limits--> lost
//	    ^                           |
//	    +------ something comes ----+
//
// A run, as each process sees it:
//
//	meeting --all are there, within the limit--> running --Close or Fail--> left --> ended
//	    |                                           |
//	    +--> no run, and one line why               +--> over: the same error in all sessions
//
// A running process is over when another one is gone (its connection has ended, or has
// carried no sign of life for the limit) or when what goes between two processes is broken:
// a wrong sum, the end of a line, or something that was sent on a line and has not come for
// four limits. The receiver asks for that by the connection for messages, since the receiver
// and the sender may both take their time. TCP_USER_TIMEOUT would end a line whose receiver
// does. Each process tells the others, and a session that a process has left without what
// another waits for ends there within the limit. So does a gathering of places that wait for
// each other in different groups, as a message names those of the receiver's places that it
// is for; a place that is merely slow is waited for.
//
// At the end of a step each report carries the time at which its process began it, by rank 0's
// clock. Everything else that decides what processes do next comes from the shared reports, so
// that all make the same calls.
package sockets
