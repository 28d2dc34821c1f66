package machinejson

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/json"

	"github.com/drover-io/drover/internal/undecodable"
)

// listStart is how the API server begins a list of Machines.
var listStart = fmt.Appendf(nil, `{"apiVersion":%q,"items":[`, machinev1beta1.GroupVersion)

// DecodeList decodes a list of Machines while it is being read, and calls visit for each; of the text no more than one Machine and a buffer is in
// memory. A list that does not begin as the API server writes it is read as a whole. It returns the metadata of the list. After an error some
// Machines may have been visited.
func DecodeList(from io.Reader, visit func(*machinev1beta1.Machine)) (metav1.ListMeta, error) {
	l := &list{from: from, text: make([]byte, 0, listBuffer)}
	for len(l.text) < len(listStart) {
		if err := l.more(); err != nil {
			break
		}
	}
	if !bytes.HasPrefix(l.text, listStart) {
		return l.whole(visit)
	}
	l.at = len(listStart)
	for first := true; ; first = false {
		end, err := l.item()
		if err != nil {
			return metav1.ListMeta{}, fmt.Errorf("reading a list of Machines: %w", err)
		}
		last := l.text[end] == ']'
		if item := l.text[l.at:end]; !first || !last || len(item) > 0 {
			machine, err := Decode(item)
			if err != nil {
				return metav1.ListMeta{}, err
			}
			visit(machine)
		}
		l.at = end + 1
		if last {
			return l.rest()
		}
	}
}

// listBuffer is how much of a list is read at once. maxItem is how long a Machine can be: an object in etcd has 1.5 MiB at most.
const (
	listBuffer = 256 << 10
	maxItem    = 16 << 20
)

// Client returns a client for the requests of Machines. Its answers are JSON.
func Client(config *rest.Config, codecs serializer.CodecFactory) (rest.Interface, error) {
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &machinev1beta1.GroupVersion, "/apis"
	config.NegotiatedSerializer = codecs.WithoutConversion()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making the client of Machines: %w", err)
	}
	return client, nil
}

// Stream asks for Machines: a list, or a watch, as the options say. namespace is the Machines' namespace; "" is all. The caller closes the answer.
func Stream(ctx context.Context, client rest.Interface, namespace string, options metav1.ListOptions) (io.ReadCloser, error) {
	return client.Get().NamespaceIfScoped(namespace, namespace != "").Resource("machines").VersionedParams(&options, metav1.ParameterCodec).Stream(ctx)
}

// List reads Machines as DecodeList does.
func List(
	ctx context.Context, client rest.Interface, namespace string, options metav1.ListOptions, visit func(*machinev1beta1.Machine),
) (metav1.ListMeta, error) {
	body, err := Stream(ctx, client, namespace, options)
	if err != nil {
		return metav1.ListMeta{}, err
	}
	defer func() { _ = body.Close() }()
	return DecodeList(body, visit)
}

// list is a list that is being read.
type list struct {
	from io.Reader
	// text is what has been read and is not decoded, from at on.
	text []byte
	at   int
}

// more reads more of the list. The error is io.EOF at its end.
func (l *list) more() error {
	if l.at > 0 {
		l.text = append(l.text[:0], l.text[l.at:]...)
		l.at = 0
	}
	switch {
	case len(l.text) > maxItem:
		return fmt.Errorf("a Machine has more than %d bytes", maxItem)
	case len(l.text) == cap(l.text):
		l.text = append(make([]byte, 0, 2*cap(l.text)), l.text...)
	}
	// What is not decoded is looked at again: as much as there is of it is read, so that the looks at a long Machine stay few.
	free := l.text[len(l.text):cap(l.text)]
	n, err := io.ReadAtLeast(l.from, free, min(len(free), max(len(l.text), 1)))
	l.text = l.text[:len(l.text)+n]
	if n > 0 && errors.Is(err, io.ErrUnexpectedEOF) {
		// The next call returns io.EOF, or this error again if a connection has broken.
		return nil
	}
	return err
}

// item reads to the end of the next item, and returns the index of the comma or bracket after it. The item is what is before it, and changed when it
// is decoded.
func (l *list) item() (end int, err error) {
	for {
		end = undecodable.AfterValue(l.text, l.at)
		if end < len(l.text) {
			if c := l.text[end]; c != ',' && c != ']' {
				return 0, fmt.Errorf("%q is where an item ends", c)
			}
			return end, nil
		}
		if err := l.more(); errors.Is(err, io.EOF) {
			return 0, io.ErrUnexpectedEOF
		} else if err != nil {
			return 0, err
		}
	}
}

// rest reads what comes after the items.
func (l *list) rest() (metav1.ListMeta, error) {
	after, err := io.ReadAll(io.LimitReader(l.from, maxItem))
	if err != nil {
		return metav1.ListMeta{}, fmt.Errorf("reading a list of Machines: %w", err)
	}
	text := append(append([]byte(`{"items":[]`), l.text[l.at:]...), after...)
	read, err := decodeWhole(text)
	return read.ListMeta, err
}

// decodeWhole decodes a list of Machines, and nothing else: a Status, or what something between here and the API server answers, is an error.
func decodeWhole(text []byte) (machinev1beta1.MachineList, error) {
	var read machinev1beta1.MachineList
	switch err := json.UnmarshalCaseSensitivePreserveInts(text, &read); {
	case err != nil:
		return read, fmt.Errorf("decoding a list of Machines: %w", err)
	case read.Kind != "MachineList" || read.ResourceVersion == "":
		return read, fmt.Errorf("the answer is no list of Machines, but of kind %q with resourceVersion %q", read.Kind, read.ResourceVersion)
	}
	return read, nil
}

// whole decodes a list that is written in another way.
func (l *list) whole(visit func(*machinev1beta1.Machine)) (metav1.ListMeta, error) {
	after, err := io.ReadAll(l.from)
	if err != nil {
		return metav1.ListMeta{}, fmt.Errorf("reading a list of Machines: %w", err)
	}
	read, err := decodeWhole(append(l.text, after...))
	if err != nil {
		return metav1.ListMeta{}, err
	}
	for i := range read.Items {
		read.Items[i].TypeMeta, read.Items[i].ManagedFields = metav1.TypeMeta{}, nil
		visit(&read.Items[i])
	}
	return read.ListMeta, nil
}
