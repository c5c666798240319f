"""Parts that all pages share: the bar on top, colors, cards, messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import urlencode

from nicegui import ui
from nicegui.element import Element
from nicegui.elements.mixins.text_element import TextElement

from palaestra.core.display import escaped_lines

E = TypeVar("E", bound=Element)
PLACES = {"Runs": "/", "Watch": "/watch", "Play": "/play", "Demonstrations": "/demos"}
"""Address of each page, by its name in the navigation bar."""

LOOK = "palaestra-look"
"""Cookie that stores whether a person has chosen light or dark; without it the browser's own choice applies."""
ICON = (
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'><rect width='32' height='32' rx='7' "
    "fill='#4275c4'/><rect x='6' y='19' width='20' height='6' rx='1.5' fill='#fff' transform='rotate(-6 16 "
    "22)'/><circle cx='17' cy='12' r='5.5' fill='#eeb03c'/></svg>"
)

STYLE = """
.q-page { background: var(--palaestra-paper); }
body { --palaestra-paper: #f6f5f0; --palaestra-card: #ffffff; --palaestra-ink: #343a46; --palaestra-quiet: #626975;
  --palaestra-focus: #1f4f9e; --palaestra-warning: #8a5a00; }
body.body--dark { --palaestra-paper: #16181d; --palaestra-card: #20242c; --palaestra-ink: #e5e7eb;
  --palaestra-quiet: #9ca3af;
  --palaestra-focus: #b9d2f7; --palaestra-warning: #eeb03c; }
body.body--dark > * { --q-primary: #8fb4e8; --q-negative: #f2938b; }
body.body--dark .bg-primary { --q-primary: #3b6cb8; }
body.body--dark .bg-negative { --q-negative: #c43c32; }
@layer overrides { /* where !important is stronger than Quasar's own, which hides outlines and colors buttons */
  .q-tooltip { background: #3a3f4a; color: #ffffff; }
  :focus-visible, .q-field--focused .q-field__control { outline: 2px solid var(--palaestra-focus) !important;
    outline-offset: 2px; }
  .q-field :focus-visible, .q-menu:focus-visible, .q-dialog:focus-visible, .q-virtual-scroll__content:focus-visible {
    outline: none !important; }
  header :focus-visible { outline-color: #fff !important; }
  .q-notification__actions, .q-notification .q-btn { color: inherit !important; }
}
@media (prefers-reduced-motion: reduce) {
  *, ::before, ::after { animation-duration: 1ms !important; animation-iteration-count: 1 !important;
    transition-duration: 1ms !important; }
}
.p-hidden { position: absolute; width: 1px; height: 1px; overflow: clip; clip-path: inset(50%); white-space: nowrap; }
.nicegui-link { color: var(--q-primary); }
.p-page-link { color: #fff; padding: 4px 8px; border-radius: 4px; text-decoration: none; font-weight: 500; }
.p-page-link[aria-current] { text-decoration: underline; text-underline-offset: 5px; text-decoration-thickness: 2px; }
.p-card { background: var(--palaestra-card); color: var(--palaestra-ink); border-radius: 10px; padding: 12px 16px;
  box-shadow: 0 1px 3px #0002; }
.p-pad { display: flex; flex-wrap: wrap; gap: 6px; padding-top: 8px; }
.p-pad button { min-width: 62px; padding: 6px 8px; border: 1px solid #8884; border-radius: 8px;
  background: transparent; color: inherit;
  display: flex; flex-direction: column; align-items: center; touch-action: none; user-select: none; cursor: pointer; }
.p-pad button.held { background: #3b6cb8; color: #fff; }
.p-pad button span { font-size: 11px; }
.p-columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); gap: 12px;
  width: 100%; }
.p-columns > * { min-width: 0; }
.p-small-charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 340px), 1fr)); gap: 12px; }
.p-setting { display: grid; grid-template-columns: minmax(0, 1fr) 11rem 2rem; gap: 8px; align-items: center;
  width: 100%; padding: 3px 0; }
.p-ellipsis { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.p-message { white-space: pre-line; overflow-wrap: anywhere; }
.p-log { font-family: ui-monospace, monospace; font-size: 12px; white-space: pre-wrap; overflow-wrap: anywhere; }
.p-chart { height: 360px; }
.p-signed { position: relative; height: 8px; border-radius: 4px; min-width: 60px;
  background: linear-gradient(#8888, #8888) center / 1px 100% no-repeat, #3b6cb822; }
.p-signed > div { position: absolute; top: 0; bottom: 0; background: var(--q-primary); border-radius: 2px; }
.p-signed > .p-spread { opacity: 0.35; }
.p-table { background: transparent; color: inherit; }
.p-table th, .p-table td { padding: 4px 8px !important; }
.p-table td.p-name { min-width: 180px; white-space: normal; }
.p-progress { min-width: 120px; }
.p-cut { max-width: 180px; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.p-dot { width: 10px; height: 10px; border-radius: 5px; flex: none; margin: 0 6px 0 2px; }
.p-run { color: var(--q-primary); font-weight: 500; text-decoration: none; overflow-wrap: anywhere; }
.p-warning { color: var(--palaestra-warning); }
.p-state { font-weight: 500; }
.p-run-card { padding: 8px; border: 1px solid #8884; border-radius: 8px; }
.p-canvas { height: min(62vh, 640px); min-height: 300px; }
.p-canvas.p-with-curve { height: clamp(300px, 100vh - 480px, 640px); }
.p-canvas.p-cameras { height: 34vh; min-height: 180px; }
.p-stage { position: relative; }
.p-start { position: absolute; left: 50%; bottom: 12px; transform: translateX(-50%); z-index: 1; }
.p-count { position: absolute; left: 0; right: 0; top: 38%; text-align: center; font-size: 34px; font-weight: 600;
  pointer-events: none;
  text-shadow: 0 0 6px var(--palaestra-card), 0 0 2px var(--palaestra-card); }
.p-score { position: absolute; top: 10px; left: 50%; transform: translateX(-50%); z-index: 1; padding: 4px 16px;
  border-radius: 999px; background: #262b34e0; color: #fff; font-size: 18px; font-weight: 600; white-space: nowrap;
  pointer-events: none; }
.p-score:empty { display: none; }
.p-qr { width: 240px; max-width: 100%; align-self: center; }
.p-grow { flex: 1 1 480px; min-width: 0; }
.p-side { flex: 1 1 300px; max-width: 420px; min-width: 0; }
.p-select { width: 300px; max-width: 100%; }
.nicegui-column:empty, .p-message:empty, .p-quiet:empty { display: none; }
.q-dialog .p-card { position: relative; z-index: 1; }
@media (max-width: 700px) { .p-canvas, .p-canvas.p-with-curve { height: 46vh; min-height: 260px; }
  .p-setting { grid-template-columns: minmax(0, 1fr) 2rem; } .p-setting > :first-child { grid-column: 1 / 3; }
  .p-side { max-width: none; } .p-card { padding: 8px; } }
#popup { max-width: min(34rem, calc(100vw - 4em)); white-space: pre-line; }
#popup > span:last-child::after { content: "\\A If the command that serves this page has ended, start it again: \
this page then continues automatically. Where the command prints another address, open that one."; }
.p-quiet { color: var(--palaestra-quiet); }
"""

TABLES = """<script>
const nameTables = () => {
  for (const head of document.querySelectorAll('th.sortable')) {
    head.tabIndex = 0;
    const order = head.classList.contains('sort-desc') ? 'descending' : head.classList.contains('sorted') ?
      'ascending' : 'none';
    head.setAttribute('aria-sort', order);
  }
  for (const list of document.querySelectorAll('[role=listbox] > [tabindex]:not([role])'))
    list.removeAttribute('tabindex');
  for (const bar of document.querySelectorAll('.q-loading-bar')) bar.setAttribute('aria-label', 'Loading');
  for (const box of document.querySelectorAll('th .q-checkbox')) box.setAttribute('aria-label', 'Choose all');
  for (const box of document.querySelectorAll('td .q-checkbox')) {
    const cell = box.closest('td').nextElementSibling;
    box.setAttribute('aria-label', 'Choose ' + (cell?.querySelector('a') ?? cell)?.textContent.trim());
  }
};
new MutationObserver(nameTables).observe(document, {subtree: true, childList: true, attributeFilter: ['class']});
document.addEventListener('keydown', (event) => {
  if (!['Enter', ' '].includes(event.key) || !event.target.matches?.('th.sortable')) return;
  event.preventDefault();
  event.target.click();
});
</script>"""
"""Script that labels checkboxes in tables and sorts by keys. Templates of cells cannot: cells are rebuilt with each
change."""


@contextmanager
def page(title: str, here: str) -> Iterator[None]:
    """Opens a page with the bar on top, and its content in the block. `here` is the current entry of `PLACES`.

    Texts from outside (names of runs, games' messages) go into labels and cells, which show HTML as text: never into
    ui.html or ui.markdown.
    """
    ui.page_title(f"{title} - Palaestra")
    ui.colors(
        primary="#3b6cb8",
        secondary="#8a68ba",
        positive="#2c7d49",
        negative="#c43c32",
        warning="#eeb03c",
        accent="#eeb03c",
    )
    ui.add_css(STYLE)
    ui.add_head_html(TABLES)
    cookies = ui.context.client.request.cookies
    dark = ui.dark_mode({"dark": True, "light": False}.get(cookies.get(LOOK, "")))

    async def turn() -> None:
        now = await ui.run_javascript("document.body.classList.contains('body--dark')")
        dark.set_value(not now)
        look = "light" if now else "dark"
        ui.run_javascript(f"document.cookie = '{LOOK}={look}; path=/; max-age=31536000; samesite=lax'")

    with ui.header().classes("items-center gap-1 px-3 py-1 no-wrap").style("background: #343a46"):
        ui.html(ICON, sanitize=False).classes("w-7 h-7")
        ui.label("Palaestra").classes("text-base font-medium gt-xs")
        ui.space()
        with ui.element("nav").props('aria-label="Pages"').classes("row no-wrap items-center"):
            for name, place in PLACES.items():
                ui.link(name, place).classes("p-page-link").props("aria-current=page" if name == here else "")
        icon_button("contrast", "Light or dark", turn).props("color=white")
    with ui.column().classes("w-full max-w-screen-2xl mx-auto p-3 gap-3"):
        heading(title, 1).classes("p-hidden")
        yield


@contextmanager
def card(title: str = "") -> Iterator[ui.column]:
    """Opens a card: a rounded surface with a title."""
    with ui.column().classes("p-card w-full gap-2") as surface:
        if title:
            heading(title, 2).classes("text-sm font-medium")
        yield surface


@contextmanager
def dialog_of(title: str) -> Iterator[ui.dialog]:
    """Opens a dialog above the page, which a screen reader announces by its title."""
    with ui.dialog() as dialog, card(title):
        dialog.props["aria-label"] = title
        yield dialog


def heading(text: str, level: int) -> TextElement:
    """Adds a heading, so that people with a screen reader find the parts of a page."""
    return TextElement(tag=f"h{level}", text=text)


def icon_button(icon: str, name: str, on_click: Callable[[], Any]) -> ui.button:
    """Adds a button with only an icon; the tooltip shows its name."""
    button = ui.button(icon=icon, on_click=on_click).props("flat round dense").tooltip(name)
    button.props["aria-label"] = name
    return button


def address(path: str, **query: str) -> str:
    """Returns an address with a query; entries without text are left out."""
    given = {key: text for key, text in query.items() if text}
    return f"{path}?{urlencode(given)}" if given else path


def within(value: object, low: float, high: float) -> float | None:
    """Returns a number that a browser has sent, within a slider's range; None for anything else."""
    if not isinstance(value, int | float) or isinstance(value, bool) or value != value:
        return None
    return float(min(max(value, low), high))


def marked(element: E, mark: str, classes: str = "", props: str = "") -> E:
    """Gives an element a mark by which tests find it, classes and props."""
    return element.classes(classes).props(f"{props} data-mark={mark}")


def marked_label(mark: str, classes: str = "text-sm p-message") -> ui.label:
    """Adds an empty text with a mark by which tests find it."""
    return marked(ui.label(), mark, classes)


def table_column(name: str, label: str, align: str = "right", *, sortable: bool = True) -> dict[str, Any]:
    """Returns a column of a table; the rows have its values under `name`."""
    return {"name": name, "label": label, "field": name, "sortable": sortable, "align": align}


def while_open(refresh: Callable[[], Awaitable[object]], seconds: float) -> None:
    """Calls `refresh` again and again as long as a browser has the page open."""
    client = ui.context.client

    async def look() -> None:
        if client.has_socket_connection:
            await refresh()

    ui.timer(seconds, look)


def quiet(text: str) -> ui.label:
    """Adds a text in a pale color, such as an explanation."""
    return ui.label(text).classes("p-quiet text-sm")


class Offer:
    """A button that leads to another page, or is disabled with the reason in its tooltip."""

    def __init__(self, text: str, icon: str, to: Callable[[], str]) -> None:
        with ui.element("div"):  # a disabled button feels no pointer, what is around it does
            self._button = ui.button(text, icon=icon, on_click=lambda: ui.navigate.to(to())).props("flat dense no-caps")
            self._tooltip = ui.tooltip().classes("p-message").style("max-width: 24rem")
        self.refuse("")

    def refuse(self, why: str) -> None:
        """Disables the button and shows this reason; an empty reason enables the button."""
        self._button.set_enabled(not why)
        self._tooltip.set_text(escaped_lines(why))
        self._tooltip.set_visibility(bool(why))


def complain(message: str) -> None:
    """Shows an error on the page until it is closed, or another error replaces it."""
    client = ui.context.client
    before = _complaints.get(client.id)
    if before is None:
        client.on_delete(lambda: _complaints.pop(client.id, None) and None)
    elif not before.is_deleted:
        before.dismiss()
    _complaints[client.id] = ui.notification(
        message, type="negative", position="bottom", timeout=None, close_button="Close", multi_line=True
    )


_complaints: dict[str, ui.notification] = {}
"""The error that each browser shows."""
