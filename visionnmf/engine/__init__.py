"""The mathematics, as functions of arrays: loss x penalty x solver x loop.

:mod:`.losses`, :mod:`.penalties`, :mod:`.starts`, :mod:`.solvers`, :mod:`.solving` (two factors, or codes),
:mod:`.symmetric` (one factor), :mod:`.online` (streams). Nothing here opens a file, prints, or knows an application.
"""
