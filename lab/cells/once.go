package cells

import (
	"context"
	"sync"
)

// once remembers what was made of each key, and makes it once, whoever asks first. What failed
// is made again.
type once[K comparable, V any] struct {
	lock sync.Mutex
	made map[K]func() (V, error)
}

func (o *once[K, V]) of(key K, make func() (V, error)) (V, error) {
	o.lock.Lock()
	if o.made == nil {
		o.made = map[K]func() (V, error){}
	}
	get := o.made[key]
	if get == nil {
		get = sync.OnceValues(make)
		o.made[key] = get
	}
	o.lock.Unlock()
	v, err := get()
	if err != nil {
		o.lock.Lock()
		delete(o.made, key)
		o.lock.Unlock()
	}
	return v, err
}

// Shared returns a function for what several cells read: it makes it when it is first called.
func Shared[V any](make func(context.Context) (V, error)) func(context.Context) (V, error) {
	var made once[struct{}, V]
	return func(ctx context.Context) (V, error) {
		return made.of(struct{}{}, func() (V, error) { return make(ctx) })
	}
}
