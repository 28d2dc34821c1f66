export interface ServerEvent {
  name: string;
  data: string;
}

// maxPending is how long an event can be, in characters: a fleet of 50,000 nodes has less.
const maxPending = 64 << 20;

// EventParser reads a stream of server-sent events, in whatever pieces it comes. EventSource cannot send the token in a header.
export class EventParser {
  // pieces are the beginning of an event, length is how long they are together.
  private pieces: string[] = [];
  private length = 0;

  // push returns the events that a piece completes. It looks at each piece once: an event can come in hundreds.
  push(piece: string): ServerEvent[] {
    const events: ServerEvent[] = [];
    let rest = piece;
    for (;;) {
      const last = this.pieces.at(-1);
      const cut = last?.endsWith("\n") && rest.startsWith("\n");
      const end = cut ? 0 : rest.indexOf("\n\n");
      if (end < 0) {
        break;
      }
      const event = parse(this.pieces.join("") + rest.slice(0, end));
      this.pieces = [];
      this.length = 0;
      rest = rest.slice(end + (cut ? 1 : 2));
      if (event) {
        events.push(event);
      }
    }
    if (rest !== "") {
      this.pieces.push(rest);
      this.length += rest.length;
    }
    if (this.length > maxPending) {
      throw new Error("an event of the stream is too long");
    }
    return events;
  }
}

function parse(block: string): ServerEvent | undefined {
  let name = "message";
  const data: string[] = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("event: ")) {
      name = line.slice("event: ".length);
    } else if (line.startsWith("data: ")) {
      data.push(line.slice("data: ".length));
    }
  }
  return data.length > 0 ? { name, data: data.join("\n") } : undefined;
}
