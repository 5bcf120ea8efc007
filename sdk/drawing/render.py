"""A drawing as SVG, which is plain text, and as PNG, which matplotlib draws.

Both are the same bytes for the same drawing.
"""

from __future__ import annotations

import io
from html import escape

from ..errors import missing_extra
from .figure import Circle, Figure, Line, Rectangle, Shape, Text

_FONT = "DejaVu Sans, Verdana, sans-serif"


def to_svg(figure: Figure) -> str:
    """Return a drawing as SVG.

    >>> print(to_svg(Figure("a dot", 20, 20, (Circle(10, 10, 4, "#ffffff", "#000000"),))))
    <svg xmlns="http://www.w3.org/2000/svg" width="20" height="20" viewBox="0 0 20 20" role="img" ...>
    <title>a dot</title>
    <circle cx="10" cy="10" r="4" fill="#ffffff" stroke="#000000"/>
    </svg>
    """
    size = f'width="{figure.width}" height="{figure.height}" viewBox="0 0 {figure.width} {figure.height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{_FONT}">',
        f"<title>{escape(figure.title)}</title>",
        *map(_element, figure.shapes),
        "</svg>",
    ]
    return "\n".join(lines)


def _element(shape: Shape) -> str:
    if isinstance(shape, Rectangle):
        position = f'x="{_n(shape.x)}" y="{_n(shape.y)}" width="{_n(shape.width)}" height="{_n(shape.height)}"'
        return f'<rect {position} fill="{shape.fill}"/>'
    if isinstance(shape, Circle):
        position = f'cx="{_n(shape.x)}" cy="{_n(shape.y)}" r="{_n(shape.radius)}"'
        return f'<circle {position} fill="{shape.fill}" stroke="{shape.edge}"/>'
    if isinstance(shape, Line):
        points = " ".join(f"{_n(x)},{_n(y)}" for x, y in shape.points)
        dash = "" if shape.dash is None else f' stroke-dasharray="{shape.dash[0]} {shape.dash[1]}"'
        return (
            f'<polyline points="{points}" fill="none" stroke="{shape.colour}" stroke-width="{_n(shape.width)}"{dash}/>'
        )
    style = f'font-size="{_n(shape.size)}" text-anchor="{shape.anchor}" fill="{shape.colour}"'
    style += ' font-weight="bold"' if shape.bold else ""
    style += ' text-decoration="line-through"' if shape.struck else ""
    return f'<text x="{_n(shape.x)}" y="{_n(shape.y)}" {style}>{escape(shape.text)}</text>'


def _n(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")


def to_png(figure: Figure, scale: float = 2.0) -> bytes:
    """Return a drawing as PNG.

    Args:
      scale: the number of pixels for each unit of the drawing.

    Raises `MissingExtraError`, naming the extra `draw`, without matplotlib.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as Canvas
    except ImportError as error:
        raise missing_extra("matplotlib", "draw", "a drawing as PNG") from error

    # A point is 1/72 inch.
    with rc_context({"font.family": "DejaVu Sans"}):
        canvas = Canvas(figsize=(figure.width / 72, figure.height / 72), dpi=72 * scale)
        FigureCanvasAgg(canvas)
        axes = canvas.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set_xlim(0, figure.width)
        axes.set_ylim(figure.height, 0)
        for order, shape in enumerate(figure.shapes):
            _draw(axes, shape, order)
        out = io.BytesIO()
        canvas.savefig(out, format="png", metadata={"Software": None})
    return out.getvalue()


def _draw(axes: object, shape: Shape, order: int) -> None:
    from matplotlib import patches
    from matplotlib.axes import Axes

    assert isinstance(axes, Axes)
    if isinstance(shape, Rectangle):
        corner = shape.x, shape.y
        axes.add_patch(patches.Rectangle(corner, shape.width, shape.height, fc=shape.fill, ec="none", zorder=order))
    elif isinstance(shape, Circle):
        position = shape.x, shape.y
        axes.add_patch(patches.Circle(position, shape.radius, fc=shape.fill, ec=shape.edge, lw=1, zorder=order))
    elif isinstance(shape, Line):
        xs, ys = zip(*shape.points, strict=True)
        style = "-" if shape.dash is None else (0, tuple(part / shape.width for part in shape.dash))
        axes.plot(xs, ys, color=shape.colour, lw=shape.width, ls=style, zorder=order, solid_capstyle="butt")
    else:
        _draw_text(axes, shape, order)


_ANCHORS = {"start": "left", "middle": "center", "end": "right"}


def _draw_text(axes: object, text: Text, order: int) -> None:
    from matplotlib.axes import Axes

    assert isinstance(axes, Axes)
    # A dollar sign would begin a formula.
    drawn = axes.text(
        text.x,
        text.y,
        text.text,
        color=text.colour,
        fontsize=text.size,
        ha=_ANCHORS[text.anchor],
        va="baseline",
        weight="bold" if text.bold else "normal",
        zorder=order,
        parse_math=False,
    )
    if text.struck:
        box = drawn.get_window_extent().transformed(axes.transData.inverted())
        y = text.y - 0.33 * text.size
        axes.plot([box.x0, box.x1], [y, y], color=text.colour, lw=1.2, zorder=order)
