"""What the cuts of a feed show, worked out from its state alone: the cut of a late hour, and one that is made again, go on
from the newest cut before them. Pure."""

from __future__ import annotations

from tidemark.hours import Hour
from tidemark.ledger.feed_state import FeedState, hours_from
from tidemark.ledger.receipts import TableProgress


def state_up_to(state: FeedState, hour: Hour, by: int | None = None) -> FeedState:
    """The state without hours behind this one. ``by``: and without what publications behind this one published."""
    hours = []
    for one in state.hours:
        most = hours_from(one.first, hour)
        if by is not None:
            most = min(most, by - one.sequence)
        if most >= 0:
            hours.append(one.model_copy(update={"last": min(one.last, one.first.plus(most))}))
    again = {
        one: [found for found in published if by is None or found.sequence <= by]
        for one, published in state.again.items()
        if one <= hour
    }
    reloads = {source: [one for one in found if one.began <= hour] for source, found in state.reloads.items()}
    return state.model_copy(
        update={
            "hours": hours,
            "again": {one: published for one, published in again.items() if published},
            "reloads": {source: begun for source, begun in reloads.items() if begun},
            "edges": {one: edges for one, edges in state.edges.items() if one <= hour},
        }
    )


def state_in_cut(state: FeedState, hour: Hour) -> FeedState:
    """What an hour's cut shows, empty where there is none: exactly its publications. Of the rest, which may have been
    otherwise when the cut was made, that of which more entries are taken for such as the cut lacks: to join an entry once
    more alters nothing."""
    by = state.cut_by(hour)
    if not by:
        return FeedState(feed=state.feed)
    then = state_up_to(state, hour, by)
    kept = {
        one: edges
        for one, edges in then.edges.items()
        if then.has(one) and state.again.get(one, []) == then.again.get(one, [])
    }
    return then.model_copy(
        update={
            "last_sequence": by,
            "last_hour": hour,
            "edges": kept,
            "held_transactions": int(state.ever_held),
            "waiting_entries": int(state.ever_waited),
            "waiting_since": 0,
        }
    )


def reloads_changed(state: FeedState, source: str, cut: FeedState, hour: Hour) -> bool:
    """Whether reloads of a source's table that began in hours up to this one are others than those that a cut shows."""
    shown, by = cut.last_hour or "", cut.last_sequence
    changes = state.reload_changes.get(source, {})
    return any(began <= hour and (began > shown or changed_by > by) for began, changed_by in changes.items())


def columns_renamed(table: TableProgress, cut: FeedState) -> bool:
    """Whether columns of a table were renamed or dropped that a cut shows under their names before. ``table``: of all that
    is published."""
    return table.renamed_by > cut.last_sequence or (table.renamed_hour or "") > (cut.last_hour or "")
