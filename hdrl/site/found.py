"""Contents of accounting data: the source of all files of a site."""

from __future__ import annotations

from dataclasses import dataclass, field

from hdrl.batch import Platform
from hdrl.settings.batch.site_rules.conf import SiteConf
from hdrl.site.joining import JoinedJobs
from hdrl.site.log import SiteLog
from hdrl.site.records import Dump
from hdrl.site.replay import Replays


@dataclass(slots=True)
class SiteImport:
    """A site that was imported.

    Attributes
    ----------
    files
        Name and SHA-256 of each dump.
    dump, jobs, conf, log, platform, replays
        Dump, joined jobs, description of the site, log, machine and replays, as read or built.
    zone
        Name of the time zone.
    notes
        Notes for the reader, a sentence each.
    cautions
        Those notes that doubt the input as a whole.
    is_anonymous
        True if names are hashed.
    similar
        Columns in which jobs of one executable are equal; none: their names.
    """

    files: list[tuple[str, str]]
    dump: Dump
    jobs: JoinedJobs
    conf: SiteConf
    log: SiteLog
    platform: Platform
    replays: Replays
    zone: str
    notes: list[str] = field(default_factory=list)
    cautions: list[str] = field(default_factory=list)
    is_anonymous: bool = False
    similar: tuple[str, ...] = ()
