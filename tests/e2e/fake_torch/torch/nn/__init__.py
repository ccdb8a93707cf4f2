from .modules import Module
